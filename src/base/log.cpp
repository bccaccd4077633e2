// The one user of spdlog.
#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace strata::log {
namespace {

constexpr const char* kLogger = "strata";

void write(spdlog::level::level_enum level, const std::string& message) {
  if (const auto logger = spdlog::get(kLogger)) logger->log(level, spdlog::string_view_t(message));
}

}  // namespace

void setup(Level level, const std::string& prefix) {
  spdlog::drop(kLogger);
  const auto logger = spdlog::stderr_logger_mt(kLogger);
  std::string escaped;  // '%' starts a pattern flag
  for (const char c : prefix) escaped += c == '%' ? "%%" : std::string(1, c);
  logger->set_pattern("%H:%M:%S %l: " + (escaped.empty() ? "" : escaped + " ") + "%v");
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  logger->set_level(kLevels[static_cast<int>(level)]);
  logger->flush_on(spdlog::level::info);
}

void debug(const std::string& message) { write(spdlog::level::debug, message); }
void info(const std::string& message) { write(spdlog::level::info, message); }
void warn(const std::string& message) { write(spdlog::level::warn, message); }
void error(const std::string& message) { write(spdlog::level::err, message); }

}  // namespace strata::log
