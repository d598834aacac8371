#include "worker/data/readers/taobao.h"

#include "worker/data/io/byte_source.h"
#include "worker/data/link_dataset.h"
#include "worker/data/readers/behavior_rows.h"
#include "worker/data/readers/reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 22U;
constexpr size_t kMaxLineBytes = size_t{1} << 16U;
constexpr int64_t kRepeatBytes = int64_t{1} << 30U;
// A block's text, and its rows, which take as much or less.
constexpr int64_t kBlockMemory = 2 * static_cast<int64_t>(kBlockBytes);

constexpr std::array<std::string_view, 4> kBehaviors{"pv", "cart", "buy", "fav"};
constexpr std::array<const char*, 5> kColumns{"user", "item", "category", "behavior", "timestamp"};

// Text in blocks of whole lines.
class BlockReader {
 public:
  explicit BlockReader(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  [[nodiscard]] const ByteSource& source() const { return *source_; }

  // The next block, empty at the end.
  Result<std::string> next() {
    const bool first = source_->file_bytes_read() == 0;
    GNN_ASSIGN_OR_RETURN(std::string block, read());
    if (first) {
      GNN_RETURN_IF_ERROR(check_no_byte_order_mark(block, source_->name()));
    }
    return block;
  }

 private:
  Result<std::string> read() {
    std::string block = std::exchange(rest_, {});
    size_t size = block.size();
    block.resize(kBlockBytes);
    while (size < kBlockBytes) {
      GNN_ASSIGN_OR_RETURN(
          const size_t got, source_->read(std::as_writable_bytes(std::span(block).subspan(size)))
      );
      if (got == 0) {
        block.resize(size);
        return block;
      }
      size += got;
    }
    // A longer line is found by the parser, at the end of its block.
    const size_t end = block.rfind('\n');
    const size_t cut = end == std::string::npos ? size : end + 1;
    rest_ = block.substr(cut);
    block.resize(cut);
    return block;
  }

  std::unique_ptr<ByteSource> source_;
  std::string rest_;
};

// Reads a number and the comma behind it.
bool read_id(const char*& at, const char* end, int64_t& id) {
  const auto [stop, code] = std::from_chars(at, end, id);
  if (code != std::errc() || stop == end || *stop != ',' || id < 0) {
    return false;
  }
  at = stop + 1;
  return true;
}

struct Timed {
  BehaviorRow row;
  int64_t time;
};

// Nothing for a line of another form.
std::optional<Timed> parse_line(std::string_view line) {
  const char* at = line.data();
  const char* const end = at + line.size();
  Timed timed{};
  if (!read_id(at, end, timed.row.user) || !read_id(at, end, timed.row.item) ||
      !read_id(at, end, timed.row.category)) {
    return std::nullopt;
  }
  const std::string_view left(at, static_cast<size_t>(end - at));
  const size_t comma = left.find(',');
  const auto* const behavior =
      std::find(kBehaviors.begin(), kBehaviors.end(), left.substr(0, comma));
  if (comma == std::string_view::npos || behavior == kBehaviors.end()) {
    return std::nullopt;
  }
  const auto [stop, code] = std::from_chars(at + comma + 1, end, timed.time);
  if (code != std::errc() || stop != end) {
    return std::nullopt;
  }
  timed.row.stamp = behavior - kBehaviors.begin();
  return timed;
}

// What a column expects, if `value` is something else.
std::string_view missed_by(size_t column, std::string_view value) {
  if (column == 3) {
    const bool known = std::find(kBehaviors.begin(), kBehaviors.end(), value) != kBehaviors.end();
    return known ? "" : "pv, cart, buy or fav";
  }
  int64_t number = 0;
  const auto [stop, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (code == std::errc::result_out_of_range) {
    return "an integer of 64 bits";
  }
  if (code != std::errc() || stop != value.data() + value.size()) {
    return "an integer";
  }
  return column < 3 && number < 0 ? "an id from 0 on" : "";
}

// What is wrong with a line that parse_line() refuses.
std::string problem_of(std::string_view line) {
  std::vector<std::string_view> values;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(',', begin), line.size());
    values.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  if (values.size() != kColumns.size()) {
    return "expected 5 columns, user,item,category,behavior,timestamp, found " +
           std::to_string(values.size());
  }
  std::string problem;
  for (size_t column = 0; column < kColumns.size() && problem.empty(); ++column) {
    if (const std::string_view expected = missed_by(column, values[column]); !expected.empty()) {
      problem.append(kColumns.at(column)).append(": expected ").append(expected);
      problem.append(", found '").append(values[column].substr(0, 40)).append("'");
    }
  }
  GNN_ASSERT(!problem.empty(), "a line whose columns are all right is a row");
  return problem;
}

struct Block {
  std::string text;
  std::vector<BehaviorRow> rows;  // of the week
  int64_t num_lines = 0;          // with the one that has a problem
  int64_t num_outside = 0;        // rows of other times
  std::string problem;            // of the last line
};

void parse_block(Block& block) {
  std::string_view text = block.text;
  block.rows.reserve(text.size() / 32);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++block.num_lines;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.size() > kMaxLineBytes) {
      block.problem = "longer than " + std::to_string(kMaxLineBytes) + " bytes";
      return;
    }
    if (line.find_first_not_of(" \t") == std::string_view::npos) {
      continue;
    }
    std::optional<Timed> timed = parse_line(line);
    if (!timed) {
      block.problem = problem_of(line);
      return;
    }
    if (timed->time < kTaobaoFirst || timed->time > kTaobaoLast) {
      ++block.num_outside;
    } else {
      timed->row.stamp += (timed->time - kTaobaoFirst) * static_cast<int64_t>(kBehaviors.size());
      block.rows.push_back(timed->row);
    }
  }
}

struct Largest {
  int64_t user = 0;
  int64_t item = 0;
  int64_t category = 0;
};

struct Table {
  BehaviorRows rows;
  Largest largest;
  int64_t num_outside = 0;
};

Result<Table> read_table(
    const std::string& path, ThreadPool& pool, ArrayStorage& storage, ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(auto source, open_by_suffix(path));
  BlockReader reader(std::move(source));
  Table table{.rows = BehaviorRows(storage), .largest = {}};
  int64_t lines_before = 0;
  // One for each thread, and for ours, as far as memory goes.
  const auto most_blocks = std::clamp<int64_t>(
      storage.memory_bytes() / kBlockMemory, 1, static_cast<int64_t>(pool.num_threads()) + 1
  );
  progress.begin("reading rows", reader.source().file_bytes_total(), "bytes");
  while (true) {
    std::vector<Block> blocks;
    while (static_cast<int64_t>(blocks.size()) < most_blocks) {
      GNN_ASSIGN_OR_RETURN(std::string text, reader.next());
      if (text.empty()) {
        break;
      }
      blocks.push_back({.text = std::move(text), .rows = {}, .problem = {}});
    }
    if (blocks.empty()) {
      break;
    }
    pool.parallel_for(static_cast<int64_t>(blocks.size()), 1, [&](int64_t block, int64_t) {
      parse_block(blocks[static_cast<size_t>(block)]);
    });
    for (const Block& block : blocks) {
      if (!block.problem.empty()) {
        return fail(
            ErrorKind::Data,
            path + ": line " + std::to_string(lines_before + block.num_lines) + ": " + block.problem
        );
      }
      lines_before += block.num_lines;
      table.num_outside += block.num_outside;
      for (const BehaviorRow& row : block.rows) {
        table.largest.user = std::max(table.largest.user, row.user);
        table.largest.item = std::max(table.largest.item, row.item);
        table.largest.category = std::max(table.largest.category, row.category);
      }
      GNN_RETURN_IF_ERROR(table.rows.add(block.rows));
    }
    progress.advance_to(reader.source().file_bytes_read(), {});
  }
  progress.end();
  return table;
}

// Rows that are left, as edges between numbered nodes.
class RowEdges final : public EdgeSource {
 public:
  RowEdges(
      const BehaviorRows& rows,
      std::span<const int64_t> dropped,
      const IdNumbers& users,
      const IdNumbers& items
  )
      : rows_(rows), dropped_(dropped), users_(users), items_(items) {}

  [[nodiscard]] int64_t num_edges() const override {
    return rows_.num_rows() - static_cast<int64_t>(dropped_.size());
  }
  void for_each_chunk(const Chunk& chunk) const override {
    constexpr size_t kChunk = 4096;
    std::array<int64_t, kChunk> sources{};
    std::array<int64_t, kChunk> destinations{};
    size_t used = 0;
    auto dropped = dropped_.begin();
    const auto hand_over = [&] {
      chunk(std::span(sources).first(used), std::span(destinations).first(used));
      used = 0;
    };
    rows_.for_each([&](int64_t position, const BehaviorRow& row) {
      if (dropped != dropped_.end() && *dropped == position) {
        ++dropped;
        return;
      }
      sources[used] = users_.number_of(row.user);
      destinations[used] = items_.number_of(row.item);
      if (++used == kChunk) {
        hand_over();
      }
    });
    if (used > 0) {
      hand_over();
    }
  }

 private:
  const BehaviorRows& rows_;
  std::span<const int64_t> dropped_;
  const IdNumbers& users_;
  const IdNumbers& items_;
};

Result<std::string> find_behavior_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return path;
  }
  std::string file = find_csv(path, "UserBehavior");
  if (file.empty()) {
    return fail(ErrorKind::NotFound, path + ": expected UserBehavior.csv.gz or UserBehavior.csv");
  }
  return file;
}

}  // namespace

Result<DatasetArrays> read_taobao(
    const std::string& path, ThreadPool& pool, ArrayStorage& storage, ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(const std::string file, find_behavior_file(path));
  GNN_ASSIGN_OR_RETURN(const Table table, read_table(file, pool, storage, progress));
  const BehaviorRows& rows = table.rows;
  if (rows.num_rows() == 0) {
    return fail(
        ErrorKind::Data,
        file + ": expected rows with timestamps from " + std::to_string(kTaobaoFirst) + " to " +
            std::to_string(kTaobaoLast) + ", found none among " +
            std::to_string(table.num_outside) + " rows"
    );
  }
  const auto numbers_of = [&](int64_t BehaviorRow::*column, int64_t largest) {
    return IdNumbers::of(largest, rows.num_rows(), [&](const auto& take) {
      rows.for_each([&](int64_t, const BehaviorRow& row) { take(row.*column); });
    });
  };
  const IdNumbers users = numbers_of(&BehaviorRow::user, table.largest.user);
  const IdNumbers items = numbers_of(&BehaviorRow::item, table.largest.item);
  const int64_t categories = numbers_of(&BehaviorRow::category, table.largest.category).size();
  const std::vector<int64_t> repeats =
      find_repeats(rows, std::min(kRepeatBytes, storage.memory_bytes() / 2), pool);
  GNN_ASSIGN_OR_RETURN(
      DatasetArrays dataset,
      link_dataset(
          RowEdges(rows, repeats, users, items),
          {.name = {.source = "user", .relation = "to", .destination = "item"},
           .num_sources = users.size(),
           .num_destinations = items.size()},
          storage,
          progress
      )
  );
  dataset.name = "taobao";
  dataset.origin.source = "Taobao";
  dataset.origin.path = path;
  auto& facts = dataset.origin.facts;
  facts.emplace_back("rowsOutsideOfTheWeek", std::to_string(table.num_outside));
  facts.emplace_back("rowsRepeated", std::to_string(repeats.size()));
  facts.emplace_back("categories", std::to_string(categories));
  return dataset;
}

}  // namespace gnn::data
