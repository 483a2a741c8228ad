// Whether the runs did the same work: the first lines of whatever puts them side by side.
#include "client/views/views.h"

namespace laggard::client {

Facts match_line(const Json& match) {
  if (!truth(at(match, "checked"))) return {};
  const std::string compared = listed(at(match, "compared"), 32);
  if (truth(at(match, "pass"))) return {{"", "match: PASS (" + compared + ")", Tone::good}};
  return {{"", "match: FAIL (compared: " + compared + ")", Tone::bad}};
}

Facts mismatch_facts(const Json& match) {
  Facts facts;
  const Json& list = at(match, "mismatches");
  if (!list.is_array()) return facts;
  for (const Json& mismatch : list) {
    facts.push_back({"differs", text(at(mismatch, "what")) + ": " + text(at(mismatch, "where")), Tone::bad});
  }
  return facts;
}

}  // namespace laggard::client
