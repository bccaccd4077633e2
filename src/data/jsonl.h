// Lines of JSONL: one object each, of which one string is the text of a document.
#pragma once
#include <string>
#include <string_view>

namespace strata::data {

// The string at `key` of the object that is the whole line. InputError "WHERE: fault" if the line is no valid
// JSON, no object, or the key is missing, there twice, or no string. `where` is file and line.
std::string json_line_text(std::string_view line, const std::string& key, const std::string& where);

}  // namespace strata::data
