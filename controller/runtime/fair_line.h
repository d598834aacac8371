#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace gnn::runtime {

/// How many of `places` one owner may hold at the same time: three quarters, so that others find one
/// free. A single place has no share.
[[nodiscard]] constexpr size_t share_of(size_t places) {
  if (places <= 1) return std::numeric_limits<size_t>::max();
  return std::max<size_t>(1, places * 3 / 4);
}

/// A line in which owners take turns. Within an owner, items are first in, first out. An owner that
/// holds its share of what the line is for is passed over until it gives something back. The last place is
/// for an owner that holds none, so that two that fill their shares leave one to a third.
/// Threads: one at a time.
template <class T>
class FairLine {
 public:
  struct Taken {
    std::string owner;
    T item;
  };

  /// `share`: the most items that one owner may have taken and not given back; `places`: as many as can
  /// be so of all owners.
  explicit FairLine(
      size_t share = std::numeric_limits<size_t>::max(),
      size_t places = std::numeric_limits<size_t>::max()
  )
      : share_(share), places_(places) {}

  void push(const std::string& owner, T item) {
    Line& line = lines_[owner];
    line.waiting.push_back(std::move(item));
    ++size_;
    if (line.waiting.size() > 1) return;
    ++owners_;
    if (line.held < share_) turns_.push_back(owner);
  }

  /// The first item of the owner whose turn it is; the caller must call done() for it. Nothing if no
  /// item waits, or only those of owners that hold their share.
  [[nodiscard]] std::optional<Taken> take() {
    const auto turn = next_turn();
    if (turn == turns_.end()) return std::nullopt;
    std::string owner = *turn;
    turns_.erase(turn);
    Line& line = lines_.at(owner);
    T item = std::move(line.waiting.front());
    line.waiting.pop_front();
    --size_;
    ++line.held;
    ++held_;
    if (line.waiting.empty()) {
      --owners_;
    } else if (line.held < share_) {
      turns_.push_back(owner);
    }
    return Taken{std::move(owner), std::move(item)};
  }

  /// The owner gives back what it took.
  void done(const std::string& owner) {
    const auto found = lines_.find(owner);
    if (found == lines_.end() || found->second.held == 0) return;
    Line& line = found->second;
    --held_;
    if (line.held-- == share_ && !line.waiting.empty()) turns_.push_back(owner);
    if (line.held == 0 && line.waiting.empty()) lines_.erase(found);
  }

  /// Removes the newest item of the owner with the most items. There must be one.
  T drop_from_longest() {
    const auto longest = std::max_element(lines_.begin(), lines_.end(), [](auto& a, auto& b) {
      return a.second.waiting.size() < b.second.waiting.size();
    });
    Line& line = longest->second;
    T dropped = std::move(line.waiting.back());
    line.waiting.pop_back();
    --size_;
    if (line.waiting.empty()) {
      --owners_;
      std::erase(turns_, longest->first);
      if (line.held == 0) lines_.erase(longest);
    }
    return dropped;
  }

  /// Whether take() would return an item.
  [[nodiscard]] bool ready() const { return next_turn() != turns_.end(); }
  /// The item that take() would return. ready() must hold.
  [[nodiscard]] const T& next() const { return lines_.at(*next_turn()).waiting.front(); }
  /// The owner's item that is taken first, or nullptr.
  [[nodiscard]] const T* first_of(const std::string& owner) const {
    const auto found = lines_.find(owner);
    if (found == lines_.end() || found->second.waiting.empty()) return nullptr;
    return &found->second.waiting.front();
  }
  /// Whether the owner may take no more before it, or another, gives something back.
  [[nodiscard]] bool holds_share(const std::string& owner) const {
    const auto found = lines_.find(owner);
    return found != lines_.end() && !may_take(found->second);
  }
  /// Items that wait.
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  /// How many turns pass at most before a new item of this owner has its own, if nobody holds its
  /// share: one for each other owner, and one for each item of its own.
  [[nodiscard]] size_t turns_before(const std::string& owner) const {
    const auto found = lines_.find(owner);
    const size_t own = found == lines_.end() ? 0 : found->second.waiting.size();
    return owners_ - (own > 0 ? 1 : 0) + own;
  }
  /// The owners that wait although others have their turns, because they hold their share.
  [[nodiscard]] std::set<std::string> held_back() const {
    std::set<std::string> owners;
    for (const auto& [owner, line] : lines_) {
      if (!may_take(line) && !line.waiting.empty()) owners.insert(owner);
    }
    return owners;
  }

 private:
  struct Line {
    std::deque<T> waiting;
    size_t held = 0;
  };

  [[nodiscard]] bool may_take(const Line& line) const {
    return line.held < share_ && (line.held == 0 || held_ + 1 < places_);
  }
  /// The first turn that may be taken. Those passed over hold a place each.
  [[nodiscard]] std::deque<std::string>::const_iterator next_turn() const {
    return std::find_if(turns_.begin(), turns_.end(), [this](const std::string& owner) {
      return may_take(lines_.at(owner));
    });
  }

  const size_t share_;
  const size_t places_;
  std::map<std::string, Line> lines_;  ///< of owners with items that wait or are held
  std::deque<std::string> turns_;      ///< owners with items that wait and less than their share
  size_t size_ = 0;
  size_t held_ = 0;
  size_t owners_ = 0;  ///< with items that wait
};

}  // namespace gnn::runtime
