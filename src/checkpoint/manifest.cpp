#include "checkpoint/manifest.h"

#include <algorithm>

#include "base/json_value.h"
#include "checkpoint/digest.h"

namespace strata::checkpoint {
namespace {

using Kind = JsonValue::Kind;

constexpr std::size_t kDigits = 16;
// In every version the text begins so, and the digits that follow are the digest of the text with zeros
// there.
constexpr std::string_view kStart = "{\n  \"checksum\": \"";

bool is_checksum(const std::string& text) {
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string digest_without_digits(std::string text) {
  text.replace(kStart.size(), kDigits, kDigits, '0');
  return digest_of(text);
}

const JsonValue& member(const JsonValue& object, const std::string& key, Kind kind,
                        const std::string& where) {
  const JsonValue* v = object.find(key);
  if (!v) throw InputError(concat(where, " lacks ", json_quote(key)));
  if (v->kind != kind) throw InputError(concat(where, " has ", v->brief(), " as ", json_quote(key)));
  return *v;
}

std::int64_t count(const JsonValue& object, const std::string& key, const std::string& where) {
  const JsonValue& v = member(object, key, Kind::Integer, where);
  if (v.integer < 0) throw InputError(concat(where, " has ", v.brief(), " as ", json_quote(key)));
  return v.integer;
}

void check_whole(const std::string& text, const std::string& source) {
  if (!text.starts_with(kStart) || text.size() < kStart.size() + kDigits)
    throw InputError(concat(source, " does not begin with its checksum"));
  const std::string said = text.substr(kStart.size(), kDigits), found = digest_without_digits(text);
  if (said != found)
    throw InputError(concat(source, " has checksum ", found, ", ", json_quote(said), " was saved"));
}

}  // namespace

bool is_plain_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && name != kManifestName &&
         name.find_first_of(std::string("/\0", 2)) == std::string::npos;
}

std::string manifest_text(const Manifest& manifest) {
  std::string text = concat(kStart, std::string(kDigits, '0'), "\",\n  \"version\": ", kFormatVersion,
                            ",\n  \"step\": ", manifest.step, ",\n  \"files\": {");
  const char* separator = "\n";
  for (const auto& [name, file] : manifest.files) {
    text += concat(separator, "    ", json_quote(name), ": {\"bytes\": ", file.bytes, ", \"checksum\": \"",
                   file.checksum, "\"}");
    separator = ",\n";
  }
  text += "\n  }\n}\n";
  return text.replace(kStart.size(), kDigits, digest_without_digits(text));
}

Manifest parse_manifest(const std::string& text, const std::string& source) {
  const JsonValue root = parse_json(text, source, Origin::File);
  check_whole(text, source);
  if (root.kind != Kind::Object) throw InputError(concat(source, " is no JSON object"));
  const std::int64_t version = count(root, "version", source);
  if (version != kFormatVersion)
    throw VersionError(
        concat(source, " is of format version ", version, ", this program reads version ", kFormatVersion));
  Manifest manifest;
  manifest.step = count(root, "step", source);
  for (const auto& [name, entry] : member(root, "files", Kind::Object, source).members) {
    const std::string where =
        concat(source, ", file ", JsonValue{.kind = Kind::String, .text = name}.brief(), ",");
    if (!is_plain_name(name)) throw InputError(concat(where, " is no plain name"));
    if (entry.kind != Kind::Object) throw InputError(concat(where, " is no object"));
    const std::string& checksum = member(entry, "checksum", Kind::String, where).text;
    if (!is_checksum(checksum))
      throw InputError(concat(where, " has ", entry.find("checksum")->brief(),
                              " as \"checksum\", allowed are ", kDigits, " hexadecimal digits"));
    manifest.files[name] = {count(entry, "bytes", where), checksum};
  }
  return manifest;
}

}  // namespace strata::checkpoint
