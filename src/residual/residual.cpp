#include "residual/residual.h"

#include <algorithm>

namespace strata::residual {

std::string parameter_prefix(Slot slot) {
  return concat("model.layers.", slot.layer(), slot.is_attention() ? ".attn_res" : ".mlp_res");
}

Item* State::find(const std::string& name) {
  const auto it = std::find_if(items.begin(), items.end(), [&](const Item& i) { return i.name == name; });
  return it == items.end() ? nullptr : &*it;
}

Var& State::operator[](const std::string& name) {
  Item* item = find(name);
  STRATA_CHECK(item, "the residual state has no item ", name);
  return item->var;
}

std::vector<Var*> State::vars() {
  std::vector<Var*> all;
  for (Item& item : items) all.push_back(&item.var);
  for (Prepared& p : prepared) all.insert(all.end(), {&p.out, &p.lse});
  return all;
}

}  // namespace strata::residual
