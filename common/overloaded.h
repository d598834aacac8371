#pragma once

namespace gnn {

/// One function object of several, for std::visit: Overloaded{[](const A&) {...}, [](const B&) {...}}.
template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace gnn
