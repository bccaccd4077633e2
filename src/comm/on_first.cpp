#include "comm/on_first.h"

#include <exception>

#include "base/error.h"

namespace strata::comm {
namespace {

// How it ended; the result or the reason follows.
constexpr char kDone = '+', kFailed = '-', kBadInput = '?';

}  // namespace

std::string on_first(Communicator& members, const std::function<std::string()>& action) {
  if (members.size() == 1) return action();
  std::string told;
  std::exception_ptr failure;
  if (members.rank() == 0) try {
      told = kDone + action();
    } catch (const std::exception& e) {
      failure = std::current_exception();
      told = (dynamic_cast<const InputError*>(&e) ? kBadInput : kFailed) + std::string(e.what());
    }
  told = gather_texts(members, told).at(0);
  if (failure) std::rethrow_exception(failure);
  const std::string text = told.substr(1);
  if (told[0] == kBadInput) throw InputError(text);
  if (told[0] == kFailed) throw Error(text);
  return text;
}

}  // namespace strata::comm
