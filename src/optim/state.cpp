// What the optimizer gives to checkpoints and takes from them.
#include "optim/optimizer.h"

namespace strata::optim {

std::vector<StatePiece> weight_pieces(ParameterStore& store, const ReductionGroups& groups) {
  std::vector<StatePiece> all;
  for (const Bucket& b : store.buckets())
    for (const Piece& p : pieces_of(b, groups.owned(b)))
      all.push_back({p, b.master.at(p.position - b.master_begin, {p.count})});
  return all;
}

void Optimizer::visit_masters(const std::function<void(const std::string&, const Tensor&)>& visit) {
  wait_for_values();
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    const Bucket& b = store_.buckets()[i];
    Tensor whole = b.master;
    if (whole.numel() != b.value.numel()) {
      whole = Tensor(device_, b.value.dims(), b.master.dtype(), device::Purpose::Parameters);
      sharers(b)
          ->all_gather(device_.compute(), b.master, whole, "masters of " + label(b))
          .wait(device_.compute());
    }
    for (const Piece& p : pieces_of(b, {0, b.value.numel()})) visit(p.name, whole.at(p.position, p.dims));
  }
}

std::map<std::string, Tensor> Optimizer::state() const {
  std::map<std::string, Tensor> state;
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    const Bucket& b = store_.buckets()[i];
    STRATA_CHECK(moments_[i].part.count() == b.value.numel(), "this rank has only a part of the moments of ",
                 label(b));
    for (const Moment& m : moments_[i].tensors)
      for (const Piece& p : pieces_of(b, moments_[i].part))
        state[m.prefix + p.name] = m.held.at(p.position, p.dims);
  }
  return state;
}

std::vector<StatePiece> Optimizer::pieces() const {
  std::vector<StatePiece> all;
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    const Bucket& b = store_.buckets()[i];
    for (const Moment& m : moments_[i].tensors)
      for (Piece p : pieces_of(b, groups_.owned(b))) {
        p.name = m.prefix + p.name;
        all.push_back({p, m.held.at(p.position - moments_[i].part.begin, {p.count})});
      }
  }
  return all;
}

std::vector<Piece> Optimizer::held() const {
  std::vector<Piece> all;
  for (std::size_t i = 0; i < moments_.size(); ++i)
    for (const Moment& m : moments_[i].tensors)
      for (Piece p : pieces_of(store_.buckets()[i], moments_[i].part)) {
        p.name = m.prefix + p.name;
        all.push_back(std::move(p));
      }
  return all;
}

void Optimizer::set_moment(const std::string& name, const std::vector<double>& values, std::int64_t offset) {
  for (std::size_t i = 0; i < moments_.size(); ++i)
    for (const Moment& m : moments_[i].tensors) {
      if (!name.starts_with(m.prefix)) continue;
      const auto found = store_.by_name().find(name.substr(m.prefix.size()));
      if (found == store_.by_name().end()) continue;
      const Parameter* p = found->second.parameter;
      if (!p || p->bucket != &store_.buckets()[i]) continue;
      const NamedSlice& s = found->second.slice;
      const std::int64_t count = std::int64_t(values.size());
      STRATA_CHECK(offset >= 0 && offset + count <= s.dims.numel(), "elements [", offset, ", ",
                   offset + count, ") of ", name, " ", s.dims.text());
      write_part(device_, m.held, moments_[i].part.begin, values, p->bucket_offset + s.offset + offset);
    }
}

}  // namespace strata::optim
