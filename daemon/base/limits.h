// Every bound of the collector and the agent, by name. docs/limits.md says what happens at each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace laggard::limits {

inline constexpr std::size_t kMaxMessageBytes = std::size_t{4} << 20;  ///< one ZeroMQ message
inline constexpr std::size_t kMaxFrameBytes = 2 * kMaxMessageBytes;    ///< ZeroMQ reads no larger one
inline constexpr std::size_t kMaxRecordsPerBatch = 1024;
inline constexpr std::uint32_t kMaxRank = 1'000'000;  ///< ranks are 0..kMaxRank-1
inline constexpr std::size_t kMaxRunNameBytes = 200;
inline constexpr std::size_t kMaxNameBytes = 512;  ///< stage, count, histogram, value, tag
inline constexpr std::size_t kMaxRuns = 10'000;
inline constexpr std::size_t kMaxAttempt = 1'000'000;
inline constexpr std::size_t kMaxStagesPerAttempt = 512;
inline constexpr std::size_t kMaxOriginBytes = 4096;  ///< a followed file's path
inline constexpr std::size_t kMaxLayoutsPerSource = 1024;
inline constexpr std::size_t kMaxLayouts = 65'536;  ///< in one database
inline constexpr std::size_t kMaxSettingsBytes = 64 << 10;
inline constexpr std::size_t kMaxExtraBytes = 64 << 10;      ///< unknown keys of one record
inline constexpr std::size_t kMaxHistogramBins = 4096;       ///< all histograms of one record
inline constexpr std::size_t kMaxSampleIndices = 65'536;     ///< of one record
inline constexpr std::size_t kMaxLineBytes = 1 << 20;        ///< one line of a followed file
inline constexpr std::size_t kMaxSessions = 200'000;         ///< sources connected at once
inline constexpr std::size_t kMaxSourcesPerRank = 64;        ///< remembered of one rank of a run
inline constexpr std::size_t kMaxLostRanges = 32;            ///< of one source, named by sequence number
inline constexpr std::size_t kMaxLossySources = 256;         ///< of one run, named with what they lost
inline constexpr std::size_t kMaxAgentConnections = 16'384;  ///< one carries the sources of an agent
inline constexpr std::size_t kReservedDescriptors = 48;      ///< for files, not for connections
inline constexpr std::size_t kRanksPerBlock = 1024;
inline constexpr std::size_t kMaxBlockBytes = std::size_t{256} << 20;  ///< records of one block, in memory
inline constexpr std::uint32_t kWindowRecords = 65'536;                ///< unacknowledged items of one source
inline constexpr std::size_t kWindowBytes = std::size_t{32} << 20;     ///< the same, in an agent's memory
inline constexpr std::size_t kEngineQueueBatches = 1024;
inline constexpr std::size_t kMaxOpenSteps = 8192;  ///< of one attempt, waiting for ranks
inline constexpr std::size_t kMaxNeverReportedListed = 1024;
inline constexpr std::size_t kMaxNamesPerRecord = 4096;  ///< all of a record's names
inline constexpr int kMaxJsonDepth = 64;                 ///< nesting of unknown keys and settings
inline constexpr std::size_t kMaxRanksPerFile = 4096;    ///< ranks whose lines one followed file may hold

// A training process that hands its steps over itself.
inline constexpr std::size_t kMaxApiNames = kMaxStagesPerAttempt;  ///< stages, counts and values, each
inline constexpr std::size_t kMaxApiTags = 64;                     ///< different tags
inline constexpr std::size_t kMaxStageDepth = 64;                  ///< stages inside each other
inline constexpr std::size_t kMaxHeldSteps = 16;                   ///< that wait for their device times
inline constexpr std::size_t kDeviceHeldSteps = 8;   ///< likewise, when the library times the device
inline constexpr std::size_t kMaxTimedCalls = 4096;  ///< of stages in one step, on the device
inline constexpr std::size_t kApiRingBytes = std::size_t{4} << 20;  ///< handed over, not yet in the window
inline constexpr std::uint32_t kSpoolMb = 256;                      ///< records beyond the window, in a file
inline constexpr std::uint32_t kMaxSpoolMb = 1 << 20;               ///< what a job may allow it
inline constexpr std::size_t kLeastQueueRecords = 256;  ///< the smallest window that drops its oldest

// The HTTP side.
inline constexpr std::size_t kMaxHttpHeaderBytes = 16 << 10;
inline constexpr std::size_t kMaxHttpBodyBytes = 1 << 20;
inline constexpr std::size_t kMaxHttpConnections = 256;
inline constexpr std::size_t kMaxEventClients = 128;  ///< connections that read the event stream
inline constexpr std::int64_t kHttpReadMs = 10'000;   ///< from a request's first byte to its last
inline constexpr std::int64_t kHttpIdleMs = 60'000;   ///< between two requests of a connection
inline constexpr std::int64_t kHttpWriteMs = 30'000;  ///< for an answer, or a piece of a stream
inline constexpr std::int64_t kQueryMs = 30'000;      ///< one query of the database
inline constexpr std::size_t kMaxStepsPerAnswer = 10'000;
inline constexpr std::size_t kMaxRunsPerReport = 64;
inline constexpr std::int64_t kReportMs = 45'000;  ///< from a report's request on; a client waits 60 s
inline constexpr std::size_t kMaxRanksPerAnswer = 16'384;
inline constexpr std::size_t kMaxSilentListed = 1024;          ///< silent ranks named in one answer
inline constexpr std::size_t kExportChunkBytes = 256 << 10;    ///< text sent at once
inline constexpr std::size_t kExportReadAheadBytes = 4 << 20;  ///< records of an export in memory
inline constexpr std::size_t kMaxEventsRemembered = 4096;
inline constexpr std::size_t kMaxMetricRuns = 1000;   ///< runs with series on /metrics
inline constexpr std::size_t kMaxMetricStages = 200;  ///< stage names of one run on /metrics
inline constexpr std::size_t kMaxMetricRanks = 4096;  ///< ranks of all runs together on /metrics?ranks=1
inline constexpr std::size_t kMaxMetricStagesOfAllRuns = 10'000;  ///< stages of all runs on /metrics

}  // namespace laggard::limits
