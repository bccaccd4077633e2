// Errors carry the facts: what was checked, and the operands. Library code throws; only tools print and exit.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace strata {

// The run failed (exit status 1).
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What the user gave is wrong: one sentence naming file, key, value and what is allowed (exit status 2).
class InputError : public Error {
 public:
  using Error::Error;
};

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

template <class... Parts>
[[noreturn]] void raise_check(const char* file, int line, const char* condition, const Parts&... parts) {
  throw Error(concat(file, ":", line, ": check failed: ", condition, "; ", parts...));
}

}  // namespace strata

#define STRATA_CHECK(condition, ...)                                                      \
  do {                                                                                    \
    if (!(condition)) ::strata::raise_check(__FILE__, __LINE__, #condition, __VA_ARGS__); \
  } while (0)
