#include "worker/agent/line_writer.h"

#include "tests/support/fake_clock.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>

namespace gnn::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kPipeCapacity = 4096;

// A writer into a small pipe whose other end the test reads, or does not.
class LineWriterTest : public ::testing::Test {
 protected:
  LineWriterTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    ::fcntl(ends[1], F_SETPIPE_SZ, kPipeCapacity);
    reader_ = UniqueFd(ends[0]);
    end_ = UniqueFd(ends[1]);
  }

  void start(LineWriterOptions options) {
    options.fd = end_.get();
    writer_.emplace(options, clock_);
  }
  void start() { start({}); }

  // Ends the writer, with what is left in the pipe for a reader.
  void stop() {
    writer_.reset();
    end_.reset();
  }

  // What the writer has written by its end, or until it gave up.
  std::string rest() {
    std::string text;
    std::array<char, 4096> buffer{};
    for (;;) {
      const ssize_t size = ::read(reader_.get(), buffer.data(), buffer.size());
      if (size <= 0) return text;
      text.append(buffer.data(), static_cast<size_t>(size));
    }
  }

  gnn::testing::FakeClock clock_;
  UniqueFd reader_;
  UniqueFd end_;
  std::optional<LineWriter> writer_;
};

std::string numbered_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += std::to_string(i) + "\n";
  return text;
}

TEST_F(LineWriterTest, WritesAllLinesInOrderBeforeItEnds) {
  start();
  for (int i = 0; i < 100; ++i) writer_->write(std::to_string(i));
  // So small a pipe is full after one write, however short.
  std::string text;
  std::thread reading([&] { text = rest(); });
  stop();
  reading.join();
  EXPECT_EQ(text, numbered_lines(100));
}

TEST_F(LineWriterTest, LosesNoLineOfABurstThatItsReaderTakesInTime) {
  start({.capacity_bytes = 100});
  std::string text;
  std::thread reading([&] { text = rest(); });
  for (int i = 0; i < 20'000; ++i) writer_->write(std::to_string(i));
  stop();
  reading.join();
  EXPECT_EQ(text, numbered_lines(20'000));
}

TEST_F(LineWriterTest, WritesALineThatIsLongerThanItsQueueAndThePipe) {
  start({.capacity_bytes = 100});
  std::string text;
  std::thread reading([&] { text = rest(); });
  const std::string line(size_t{1} << 20, 'x');
  writer_->write(line);
  stop();
  reading.join();
  EXPECT_EQ(text, line + "\n");
}

TEST_F(LineWriterTest, DropsLinesWithoutWaitingWhileItsReaderStalls) {
  start({.capacity_bytes = 100, .patience = milliseconds(0), .flush_limit = milliseconds(0)});
  const std::string line(80, 'x');
  for (int i = 0; i < 10'000; ++i) writer_->write(line);
  stop();
  EXPECT_LE(rest().size(), kPipeCapacity);
}

TEST_F(LineWriterTest, DropsLinesOnceTheOldestHasWaitedTooLong) {
  start({.capacity_bytes = 100, .patience = seconds(1), .flush_limit = milliseconds(0)});
  std::atomic<bool> written = false;
  std::thread writing([&] {
    for (int i = 0; i < 1'000; ++i) writer_->write(std::string(80, 'x'));
    written = true;
  });
  while (!written) clock_.advance(seconds(1));
  writing.join();
}

TEST_F(LineWriterTest, SaysHowManyLinesItHasDroppedWhereTheyWere) {
  start({.capacity_bytes = 100, .patience = milliseconds(0)});
  const std::string line(80, 'x');
  // More than the pipe, the thread and the queue can hold.
  for (int i = 0; i < 1'000; ++i) writer_->write(line);
  std::string text;
  std::thread reading([&] { text = rest(); });
  stop();
  reading.join();
  int kept = 0;
  int dropped = 0;
  std::istringstream lines(text);
  for (std::string found; std::getline(lines, found);)
    found == line ? ++kept : dropped += std::stoi(found);
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(kept + dropped, 1'000);
  EXPECT_NE(text.find(" lines were dropped: this output is read too slowly"), std::string::npos);
}

TEST_F(LineWriterTest, EndsWhileNobodyReads) {
  start({.flush_limit = milliseconds(1)});
  for (int i = 0; i < 1'000; ++i) writer_->write(std::string(80, 'x'));
  stop();
}

TEST_F(LineWriterTest, AReaderThatIsGoneEndsNothing) {
  start();
  reader_.reset();
  for (int i = 0; i < 1'000; ++i) writer_->write(std::string(80, 'x'));
  stop();
}

TEST_F(LineWriterTest, LeavesTheDescriptorOfOthersBlocking) {
  start();
  EXPECT_EQ(::fcntl(end_.get(), F_GETFL) & O_NONBLOCK, 0);
}

}  // namespace
}  // namespace gnn::agent
