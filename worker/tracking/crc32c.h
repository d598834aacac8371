#pragma once

#include <cstdint>
#include <string_view>

namespace gnn::tracking {

/// CRC-32C (Castagnoli): the polynomial 0x1EDC6F41, reflected.
/// Source: RFC 3720, section 12.1; test vectors in its appendix B.4.
[[nodiscard]] uint32_t crc32c(std::string_view bytes);

/// As TFRecord files keep it: rotated and shifted, so that a checksum over data that hold checksums
/// stays good.
/// Source: tensorflow/core/lib/hash/crc32c.h.
[[nodiscard]] uint32_t masked_crc32c(std::string_view bytes);

}  // namespace gnn::tracking
