// Between the project's own types and protobuf's, which stop here.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/base/record.h"

namespace laggard::wire {
class Layout;
class PackedRecords;
}  // namespace laggard::wire

namespace laggard::codec {

void to_wire(const Layout& layout, wire::Layout* out);
Layout from_wire(const wire::Layout& layout);

/// Packs records for a message; the message's columns are replaced.
void to_wire(const PackedRecords& records, wire::PackedRecords* out);
/// The same for the way back. Nothing about the bytes is trusted: returns why they do not hold together.
[[nodiscard]] std::optional<std::string> from_wire(const wire::PackedRecords& in,
                                                   const PackedRecords::LayoutOf& layout_of,
                                                   PackedRecords* out);

/// Makes a stored block's bytes, in memory that it keeps for the next one. The step is kept by the row, not
/// in the block.
class BlockEncoder {
 public:
  BlockEncoder();
  ~BlockEncoder();
  /// Valid until the next call.
  std::string_view encode(const PackedRecords& records);

 private:
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};
[[nodiscard]] std::optional<std::string> decode_block(std::string_view bytes, Step step,
                                                      const PackedRecords::LayoutOf& layout_of,
                                                      PackedRecords* out);

/// A layout's bytes as stored, and back; nothing when the bytes are no layout.
std::string encode_layout(const Layout& layout);
std::optional<Layout> decode_layout(std::string_view bytes);

}  // namespace laggard::codec
