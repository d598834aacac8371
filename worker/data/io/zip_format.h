#pragma once

#include <cstdint>

namespace gnn::data {

/// How records of a ZIP archive begin: PKWARE APPNOTE 6.3.3, sections 4.3.7 (local header), 4.3.12
/// (central directory) and 4.3.14 to 16 (end records).
inline constexpr uint32_t kLocalSignature = 0x04034b50;
inline constexpr uint32_t kCentralSignature = 0x02014b50;
inline constexpr uint32_t kEndSignature = 0x06054b50;
inline constexpr uint32_t kEnd64Signature = 0x06064b50;
inline constexpr uint32_t kLocator64Signature = 0x07064b50;

}  // namespace gnn::data
