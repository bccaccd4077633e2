#include "comm/checked.h"

#include <algorithm>

namespace strata::comm {
namespace {

constexpr std::int64_t kWords = Descriptions::kBytes / sizeof(std::int64_t);

class Checked final : public Operation {
 public:
  Checked(std::shared_ptr<Descriptions> descriptions, std::shared_ptr<Operation> exchange,
          std::shared_ptr<Operation> collective, std::string group, int number)
      : descriptions_(std::move(descriptions)),
        exchange_(std::move(exchange)),
        collective_(std::move(collective)),
        group_(std::move(group)),
        number_(number) {}
  ~Checked() override { Checked::cancel(); }

  // Both at once: waiting here would order operations of different groups.
  void start() override {
    exchange_->start();
    collective_->start();
  }
  void finish() override {
    exchange_->finish();
    descriptions_->compare(group_, number_);
    collective_->finish();
  }
  void cancel() override {
    exchange_->cancel();
    collective_->cancel();
  }
  Traffic traffic() const override { return collective_->traffic(); }

 private:
  std::shared_ptr<Descriptions> descriptions_;  // outlives the exchange that writes into it
  std::shared_ptr<Operation> exchange_, collective_;
  std::string group_;
  int number_;
};

}  // namespace

Descriptions::Descriptions(int members, int rank, const std::string& mine)
    : members_(members), rank_(rank), texts_(std::make_unique<char[]>(std::size_t(members) * kBytes)) {
  mine.copy(texts_.get() + rank * kBytes, kBytes - 1);
}

ConstView Descriptions::mine() const { return {texts_.get() + rank_ * kBytes, DType::Int64, {kWords}}; }

View Descriptions::all() { return {texts_.get(), DType::Int64, {kWords * members_}}; }

void Descriptions::compare(const std::string& group, int number) const {
  const std::string first = texts_.get();
  for (int r = 1; r < members_; ++r)
    if (const std::string other = texts_.get() + r * kBytes; other != first)
      throw Error(concat("collective ", number, " of ", group, " is ", first, " on its rank 0 and ", other,
                         " on its rank ", r));
}

std::shared_ptr<Operation> checked(std::shared_ptr<Descriptions> descriptions,
                                   std::shared_ptr<Operation> exchange, std::shared_ptr<Operation> collective,
                                   const std::string& group, int number) {
  return std::make_shared<Checked>(std::move(descriptions), std::move(exchange), std::move(collective), group,
                                   number);
}

}  // namespace strata::comm
