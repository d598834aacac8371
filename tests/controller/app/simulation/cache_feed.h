#pragma once

#include "controller/app/caches.h"
#include "tests/controller/app/simulation/api_server.h"
#include "tests/controller/app/simulation/dice.h"

#include <functional>
#include <string>
#include <vector>

namespace gnn::simulation {

/// The lists and watches of one controller: shows its caches what happened, kind by kind in order, but
/// late, and of one kind before another.
class CacheFeed {
 public:
  CacheFeed(const ApiServer& server, app::Caches& caches);

  /// Lists every kind.
  void list_all();
  /// Starts or stops the watch of a kind that may not be served.
  void watch(const std::string& name, bool watched);
  [[nodiscard]] bool watches(const std::string& name) const;
  /// Shows one change of some kind that is not blind. False if there is none.
  bool show_one(Dice& dice, Duration now);
  /// Shows all that there is, also to the blind.
  void show_all();
  /// The version that the watch of some kind stands at is no longer known: it lists.
  void relist(Dice& dice);
  /// The watch of some kind shows nothing until then.
  void blind(Dice& dice, Duration until);

 private:
  struct Kind {
    std::string name;
    bool all = false;  ///< whether objects without the job's label are watched, too
    bool watched = true;
    bool listed = false;
    size_t next = 0;  ///< in the server's history
    Duration blind_until{0};
    std::function<void(const std::vector<Object>&, const std::string& version)> replace;
    std::function<void(const Json&)> upsert;
    std::function<void(const ObjectKey&, const std::string& version)> erase;
    std::function<void()> clear;
  };

  template <class T>
  void add(const std::string& name, runtime::Store<T>& store, bool all = false);
  [[nodiscard]] bool selects(const Kind& kind, const Object& object) const;
  void list(Kind& kind);
  [[nodiscard]] const Kind& kind_of(const std::string& name) const;
  /// Whether there was a change that the watch selects.
  bool show(Kind& kind);

  const ApiServer& server_;
  std::vector<Kind> kinds_;
};

}  // namespace gnn::simulation
