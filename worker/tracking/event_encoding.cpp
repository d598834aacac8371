#include "worker/tracking/event_encoding.h"

#include "worker/tracking/crc32c.h"

#include <bit>
#include <cstdint>
#include <utility>

namespace gnn::tracking {
namespace {

// Numbers of fields.
enum EventField : uint32_t {
  kWallTime = 1,
  kStep = 2,
  kFileVersion = 3,
  kSummary = 5,
  kSession = 7
};
constexpr uint32_t kSummaryValue = 1;
enum ValueField : uint32_t { kTag = 1, kSimpleValue = 2 };
constexpr uint32_t kSessionStatus = 1;
constexpr uint64_t kStatusStart = 1;

// How a field's value is written.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Bytes of a message of protocol buffers.
class Message {
 public:
  Message& number(uint32_t field, uint64_t value) {
    key(field, kVarint);
    varint(value);
    return *this;
  }
  Message& real64(uint32_t field, double value) {
    key(field, kFixed64);
    little_endian(std::bit_cast<uint64_t>(value), 8);
    return *this;
  }
  Message& real32(uint32_t field, float value) {
    key(field, kFixed32);
    little_endian(std::bit_cast<uint32_t>(value), 4);
    return *this;
  }
  Message& bytes(uint32_t field, std::string_view value) {
    key(field, kBytes);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  // Without a key.
  Message& fixed(uint64_t value, uint32_t size) {
    little_endian(value, size);
    return *this;
  }
  Message& append(std::string_view text) {
    bytes_ += text;
    return *this;
  }

  [[nodiscard]] const std::string& text() const { return bytes_; }

 private:
  void key(uint32_t field, WireType type) { varint((uint64_t{field} << 3U) | type); }
  void varint(uint64_t value) {
    for (; value >= 0x80U; value >>= 7U) bytes_ += static_cast<char>((value & 0x7FU) | 0x80U);
    bytes_ += static_cast<char>(value);
  }
  void little_endian(uint64_t value, uint32_t size) {
    for (uint32_t i = 0; i < size; ++i) bytes_ += static_cast<char>((value >> (8U * i)) & 0xFFU);
  }

  std::string bytes_;
};

Message event_at(TimePoint time) {
  return std::move(
      Message().real64(kWallTime, std::chrono::duration<double>(time.time_since_epoch()).count())
  );
}

}  // namespace

std::string encode_file_version(TimePoint time) {
  return event_at(time).bytes(kFileVersion, "brain.Event:2").text();
}

std::string encode_event(const Record& record) {
  Message event = event_at(record.time);
  event.number(kStep, static_cast<uint64_t>(record.step));
  if (record.start)
    return event.bytes(kSession, Message().number(kSessionStatus, kStatusStart).text()).text();
  Message summary;
  for (const Scalar& scalar : record.scalars)
    summary.bytes(
        kSummaryValue,
        Message()
            .bytes(kTag, scalar.name)
            .real32(kSimpleValue, static_cast<float>(scalar.value))
            .text()
    );
  return event.bytes(kSummary, summary.text()).text();
}

std::string frame(std::string_view event) {
  Message length;
  length.fixed(event.size(), 8);
  return Message()
      .append(length.text())
      .fixed(masked_crc32c(length.text()), 4)
      .append(event)
      .fixed(masked_crc32c(event), 4)
      .text();
}

}  // namespace gnn::tracking
