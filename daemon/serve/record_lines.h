// Records written back as training scripts write them: one JSON object a line.
#pragma once

#include <string>
#include <string_view>

#include "daemon/base/record.h"

namespace laggard::serve {

/// Appends a record as an `update` line. Every number is written so that it reads back as the same bits and
/// a double stays a double; NaN, Infinity and -Infinity are written as Python writes them.
void append_update_line(const RecordView& record, std::string* out);

/// Appends a `config` line from a rank's settings, a JSON object in the words of the config line it came in.
void append_config_line(std::string_view settings, std::string* out);

}  // namespace laggard::serve
