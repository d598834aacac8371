#pragma once

#include "controller/objects/meta.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace gnn::runtime {

/// What the readers of a Store write to the API server, so that neither a watch that is behind takes
/// it back, nor a late reply what the watch has shown since.
///
/// A write of an object is expected, or known (its reply is stored, and the watch has not shown as
/// much), or both, or neither:
///
/// | Then                         | the expected write                 | the known write            |
/// | ---------------------------- | ---------------------------------- | -------------------------- |
/// | expect()                     | begins: nothing was shown since    | stays                      |
/// | forget()                     | ends                               | stays                      |
/// | fulfil(), newer than shown   | ends                               | begins                     |
/// | fulfil(), else               | ends                               | stays                      |
/// | show(), older than the known | stays                              | stays: nothing is stored   |
/// | show(), else                 | remembers the version that is shown | ends                       |
/// | show() without a version     | ends: it may be newer              | ends                       |
///
/// Threads: one at a time.
class OwnWrites {
 public:
  /// A reader is about to write the object.
  void expect(const objects::ObjectKey& key);
  /// Its write failed.
  void forget(const objects::ObjectKey& key);
  /// The reply has that version. Returns whether to store it.
  [[nodiscard]] bool fulfil(const objects::ObjectKey& key, const std::string& version);
  /// A watch or a list shows the object, or its deletion, at that version; `stored` is the version of
  /// what is stored. Returns whether to store what is shown.
  [[nodiscard]] bool show(
      const objects::ObjectKey& key, const std::string& version, const std::string& stored
  );
  /// The objects with writes, in that namespace (empty: in all).
  [[nodiscard]] std::vector<objects::ObjectKey> keys(const std::string& namespace_) const;

 private:
  std::map<objects::ObjectKey, std::string> expected_;  ///< with the version shown since, if any
  std::set<objects::ObjectKey> known_;
};

}  // namespace gnn::runtime
