// Every bound of the collector and the agent, by name. docs/limits.md says what happens at each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace laggard::limits {

inline constexpr std::size_t kMaxMessageBytes = std::size_t{4} << 20;  ///< one ZeroMQ message
inline constexpr std::size_t kMaxRecordsPerBatch = 1024;
inline constexpr std::uint32_t kMaxRank = 1'000'000;  ///< ranks are 0..kMaxRank-1
inline constexpr std::size_t kMaxRunNameBytes = 200;
inline constexpr std::size_t kMaxNameBytes = 512;  ///< stage, count, histogram, value, tag
inline constexpr std::size_t kMaxRuns = 10'000;
inline constexpr std::size_t kMaxAttempt = 1'000'000;
inline constexpr std::size_t kMaxStagesPerAttempt = 512;
inline constexpr std::size_t kMaxLayoutsPerSource = 1024;
inline constexpr std::size_t kMaxLayouts = 65'536;  ///< in one database
inline constexpr std::size_t kMaxSettingsBytes = 64 << 10;
inline constexpr std::size_t kMaxExtraBytes = 64 << 10;  ///< unknown keys of one record
inline constexpr std::size_t kMaxHistogramBins = 4096;   ///< all histograms of one record
inline constexpr std::size_t kMaxSampleIndices = 65'536; ///< of one record
inline constexpr std::size_t kMaxLineBytes = 1 << 20;    ///< one line of a followed file
inline constexpr std::size_t kMaxSessions = 200'000;     ///< sources connected at once
inline constexpr std::size_t kRanksPerBlock = 1024;
inline constexpr std::uint32_t kWindowRecords = 65'536;  ///< unacknowledged items of one source
inline constexpr std::size_t kWindowBytes = std::size_t{32} << 20;  ///< the same, in an agent's memory
inline constexpr std::size_t kEngineQueueBatches = 4096;

}  // namespace laggard::limits
