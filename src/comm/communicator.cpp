#include "comm/communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "comm/channel.h"

namespace strata::comm {

Pending::Pending(Pending&& other) noexcept { *this = std::move(other); }

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this == &other) return *this;
  cancel();
  operation_ = std::exchange(other.operation_, nullptr);
  tensors_ = std::exchange(other.tensors_, {});
  started_ = other.started_;
  return *this;
}

Pending::~Pending() { cancel(); }

void Pending::cancel() noexcept {
  if (operation_) operation_->cancel();
}

void Pending::wait(device::Stream& stream) {
  if (!operation_) return;
  stream.wait(started_);
  stream.host_work([operation = operation_] { operation->finish(); });
  operation_ = nullptr;
  tensors_.clear();
}

void Pending::start(device::Stream& stream) {
  stream.host_work([operation = operation_] { operation->start(); });
  stream.record(started_);
}

Pending Communicator::begin(device::Stream& stream, std::shared_ptr<Operation> operation,
                            std::vector<Tensor> tensors) {
  traffic_.bytes += operation->traffic().bytes;
  traffic_.messages += operation->traffic().messages;
  Pending pending(operation, std::move(tensors));
  pending.start(stream);
  return pending;
}

void Communicator::run(std::shared_ptr<Operation> operation) {
  traffic_.bytes += operation->traffic().bytes;
  traffic_.messages += operation->traffic().messages;
  operation->start();
  operation->finish();
}

void Communicator::check_peer(const char* operation, const Tensor& tensor, int peer, int tag) const {
  STRATA_CHECK(tensor.defined(), operation, " of ", name_, " needs a tensor");
  STRATA_CHECK(peer >= 0 && peer < size() && peer != rank_, operation, " of ", name_, " names rank ", peer,
               ", which must be another of its ", size(), " ranks (this is rank ", rank_, ")");
  STRATA_CHECK(tag >= 0 && tag < kTags, operation, " of ", name_, " has tag ", tag, ", beyond 0 to ",
               kTags - 1);
}

Pending Communicator::send(device::Stream& stream, const Tensor& x, int to, int tag, std::string what) {
  check_peer("send", x, to, tag);
  return begin(stream, make_send(x, to, tag, std::move(what)), {x});
}

Pending Communicator::receive(device::Stream& stream, const Tensor& y, int from, int tag, std::string what) {
  check_peer("receive", y, from, tag);
  return begin(stream, make_receive(y, from, tag, std::move(what)), {y});
}

Pending Communicator::all_reduce(device::Stream& stream, const Tensor& x, std::string what) {
  STRATA_CHECK(x.defined(), "all_reduce of ", name_, " needs a tensor");
  return begin(stream, make_all_reduce(x, std::move(what)), {x});
}

Pending Communicator::reduce_scatter(device::Stream& stream, const Tensor& x, const Tensor& y,
                                     std::string what) {
  STRATA_CHECK(x.defined() && y.defined() && x.dtype() == y.dtype() && x.numel() == y.numel() * size(),
               "reduce_scatter of ", name_, " over ", size(), " ranks from ", name_of(x.dtype()),
               x.dims().text(), " to ", name_of(y.dtype()), y.dims().text(), ": one type, and ", size(),
               " times the elements");
  return begin(stream, make_reduce_scatter(x, y, std::move(what)), {x, y});
}

Pending Communicator::all_gather(device::Stream& stream, const Tensor& x, const Tensor& y, std::string what) {
  STRATA_CHECK(x.defined() && y.defined() && x.dtype() == y.dtype() && x.numel() * size() == y.numel(),
               "all_gather of ", name_, " over ", size(), " ranks from ", name_of(x.dtype()), x.dims().text(),
               " to ", name_of(y.dtype()), y.dims().text(), ": one type, and ", size(),
               " times the elements");
  return begin(stream, make_all_gather(x, y, std::move(what)), {x, y});
}

Pending Communicator::all_to_all(device::Stream& stream, const Tensor& x, std::vector<std::int64_t> send,
                                 const Tensor& y, std::vector<std::int64_t> receive, std::string what) {
  const auto fits = [&](const Tensor& t, const std::vector<std::int64_t>& rows) {
    return t.defined() && t.dims().rank > 0 && int(rows.size()) == size() &&
           std::all_of(rows.begin(), rows.end(), [](std::int64_t n) { return n >= 0; }) &&
           std::accumulate(rows.begin(), rows.end(), std::int64_t(0)) == t.dim(0);
  };
  STRATA_CHECK(fits(x, send), "all_to_all of ", name_, " sends rows of ", x.dims().text(), " by ",
               send.size(), " counts: one per rank (", size(), "), none negative, together all rows");
  STRATA_CHECK(fits(y, receive), "all_to_all of ", name_, " receives rows of ", y.dims().text(), " by ",
               receive.size(), " counts: one per rank (", size(), "), none negative, together all rows");
  Dims x_row = x.dims(), y_row = y.dims();
  x_row.extent[0] = y_row.extent[0] = 1;
  STRATA_CHECK(x.dtype() == y.dtype() && x_row == y_row, "all_to_all of ", name_, " from ",
               name_of(x.dtype()), x.dims().text(), " to ", name_of(y.dtype()), y.dims().text(),
               ": rows of one type and shape");
  STRATA_CHECK(send[rank_] == receive[rank_], "all_to_all of ", name_, ": rank ", rank_, " sends itself ",
               send[rank_], " rows and receives ", receive[rank_]);
  return begin(stream, make_all_to_all(x, std::move(send), y, std::move(receive), std::move(what)), {x, y});
}

void Communicator::barrier(std::string what) {
  std::int32_t here = 1;
  Communicator& carrier = host();
  carrier.run(
      carrier.make_all_reduce({&here, DType::Int32, {1}}, what.empty() ? "barrier" : std::move(what)));
}

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& mine) {
  Communicator& carrier = communicator.host();
  const int n = carrier.size();
  const auto gather = [&](const std::vector<std::int64_t>& x) {
    std::vector<std::int64_t> y(x.size() * n);
    const std::int64_t count = std::int64_t(x.size());
    carrier.run(carrier.make_all_gather({x.data(), DType::Int64, {count}},
                                        {y.data(), DType::Int64, {count * n}}, "texts"));
    return y;
  };
  const std::vector<std::int64_t> lengths = gather({std::int64_t(mine.size())});
  const std::size_t words = *std::max_element(lengths.begin(), lengths.end()) / 8 + 1;
  std::vector<std::int64_t> packed(words, 0);
  std::memcpy(packed.data(), mine.data(), mine.size());
  const std::vector<std::int64_t> all = gather(packed);
  std::vector<std::string> texts;
  for (int i = 0; i < n; ++i)
    texts.emplace_back(reinterpret_cast<const char*>(all.data() + i * words), lengths[i]);
  return texts;
}

}  // namespace strata::comm
