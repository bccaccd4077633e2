// Messages for people, to stderr. Silent until main calls setup; layers below train do not log.
#pragma once
#include <string>

namespace strata::log {

enum class Level { Debug, Info, Warn, Error };

// Messages below `level` are dropped; `prefix`, if any, stands before each (a rank's place in the mesh).
void setup(Level level = Level::Info, const std::string& prefix = "");

void debug(const std::string& message);
void info(const std::string& message);
void warn(const std::string& message);
void error(const std::string& message);

}  // namespace strata::log
