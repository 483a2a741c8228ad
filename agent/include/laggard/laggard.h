/* Hands the steps of a training process over to a laggard collector, without a file in between.
 *
 *   laggard_init(NULL);                                  names and addresses from the environment
 *   int forward = laggard_stage_id("forward", LAGGARD_KIND_DEFAULT);
 *   for (...) {
 *     laggard_step_begin(LAGGARD_NEXT_STEP);
 *     laggard_stage_begin(forward); ... laggard_stage_end(forward);
 *     laggard_step_end();
 *   }
 *   laggard_end(2000);
 *
 * There is one state for the process, since a training process is one rank. The thread that calls
 * laggard_init() is the one that measures: calls from any other thread, and from a forked child, change
 * nothing and are counted. No call throws, aborts, installs a signal handler or waits for a collector; only
 * laggard_flush() and laggard_end() wait, as long as they are told, and the process's exit, for at most 2 s.
 * With LAGGARD_DISABLED=1 in the environment every call does nothing. docs/api-c.md has the whole story.
 */
#ifndef LAGGARD_LAGGARD_H
#define LAGGARD_LAGGARD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LAGGARD_API __attribute__((visibility("default")))

typedef enum laggard_status {
  LAGGARD_OK = 0,
  LAGGARD_OFF = 1,          /* disabled, not begun, or ended: the call did nothing */
  LAGGARD_BAD = 2,          /* an argument that cannot be, or no telling which rank this is or where the
                             * collector; the reason stands on stderr */
  LAGGARD_OTHER_THREAD = 3, /* not the thread that called laggard_init() */
  LAGGARD_FORKED = 4,       /* the child of a process that had begun */
  LAGGARD_TIMEOUT = 5,      /* the time given was over before everything was delivered */
  LAGGARD_FAILED = 6        /* no memory, thread or file descriptor; which, stands on stderr */
} laggard_status;

/* What a stage is; docs/profiles.md explains the kinds. DEFAULT leaves it to its name and to a job profile.
 */
typedef enum laggard_kind {
  LAGGARD_KIND_DEFAULT = 0,
  LAGGARD_KIND_WORK = 1,
  LAGGARD_KIND_INPUT = 2, /* waiting for or preparing data */
  LAGGARD_KIND_SYNC = 3,  /* contains waiting for other ranks */
  LAGGARD_KIND_ASIDE = 4  /* checkpoint, evaluation, logging: no part of a normal step */
} laggard_kind;

/* Begin with LAGGARD_OPTIONS_INIT, then set what is known. Whatever is left as it was comes from the
 * environment variable named beside it; where that is not set either, rank, world size, attempt and run come
 * from the launcher (docs/launchers.md). Members are only ever added at the end. */
typedef struct laggard_options {
  size_t size;         /* sizeof(laggard_options): which members there are */
  int32_t rank;        /* LAGGARD_RANK; where nobody says a number, the only rank there is */
  uint32_t world_size; /* LAGGARD_WORLD_SIZE: how many ranks the job has */
  uint32_t attempt; /* LAGGARD_ATTEMPT: which start of the job this is, 1 and up; else the collector counts */
  uint32_t queue_records; /* LAGGARD_QUEUE_RECORDS: records kept for a collector that is away, 256 to 65536;
                             0 is 65536. Beyond it the oldest are dropped and counted */
  uint32_t held_steps;    /* 0 to 16 newest steps that wait for laggard_stage_device_ms() */
  const char* collector;  /* LAGGARD_INGEST; like tcp://127.0.0.1:17600, which it is otherwise */
  const char* run;        /* LAGGARD_RUN: the run's name */
  const char* config;     /* settings of the run as the text of a JSON object, or NULL */
  const char* key_file;   /* LAGGARD_KEY: file of this side's secret key, for a collector that wants keys */
  const char* collector_key; /* LAGGARD_COLLECTOR_KEY: the collector's public key, or its file */
  const char* spool; /* LAGGARD_SPOOL: a directory, for a file of the records that the queue has no room for;
                        without one they are dropped at once */
  uint32_t spool_mb; /* LAGGARD_SPOOL_MB: MiB that this file may have; 0 is 256 */
  const char* cuda;  /* LAGGARD_CUDA: the CUDA runtime's library, with which laggard_stage_begin_on() times
                        stages;  "auto" looks for it, "none" or nothing does not */
  const char* otherwise_run; /* the run's name where nobody says one; NULL is the program's */
  int32_t otherwise_rank;    /* rank and world size where neither the variables nor a launcher say a rank; */
  uint32_t otherwise_world_size; /* below 0: nobody knows. 0: not known */
} laggard_options;

#define LAGGARD_OPTIONS_INIT \
  { sizeof(laggard_options), -1, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, -1, 0 }

#define LAGGARD_NEXT_STEP INT64_C(-1)    /* one more than the last, 1 at first */
#define LAGGARD_CURRENT_STEP INT64_C(-1) /* the one being measured; between two steps, the next */

/* The version of the library, such as "0.1.0". */
LAGGARD_API const char* laggard_version(void);

/* Begins. `options` may be NULL. Reads the environment and key files, starts one thread, connects later by
 * itself. After laggard_end() it may be called again. When it cannot begin it says why on stderr, once, and
 * every other call does nothing. */
LAGGARD_API laggard_status laggard_init(const laggard_options* options);

/* Settings of the run (world size, batch sizes, anything), the text of a JSON object; docs/records.md names
 * the known keys. Each call replaces the settings given before. */
LAGGARD_API laggard_status laggard_config(const char* json);

/* The number of a stage, a count or a value; the same name always has the same number. To be asked for once,
 * after laggard_init(). Names have 1 to 512 bytes of UTF-8, and there are at most 512 of each. Below 0: there
 * is none, and calls with it are ignored. `kind` is a laggard_kind; the first one said for a stage counts. */
LAGGARD_API int laggard_stage_id(const char* name, int kind);
LAGGARD_API int laggard_count_id(const char* name);
LAGGARD_API int laggard_value_id(const char* name);

/* A step: one optimizer update. `step` is its number, 0 and up, or LAGGARD_NEXT_STEP. A step that is still
 * open ends where the next begins. What is measured between two steps belongs to the next one, whose wall
 * time then runs from the first stage entered there. Wall and host times are of a monotonic clock. */
LAGGARD_API void laggard_step_begin(int64_t step);
LAGGARD_API void laggard_step_end(void);

/* A stage of the step. Stages nest: what is begun while another is open is inside that one, and stays so for
 * good. A stage entered n times in a step has n calls and the sum of their times. Ending a stage ends those
 * begun inside it; the end of the step ends all. */
LAGGARD_API void laggard_stage_begin(int stage);
LAGGARD_API void laggard_stage_end(int stage);

/* The same, and on the device: the time from when `stream`, a cudaStream_t, comes to the beginning of the
 * stage to when it comes to its end. It is read at least a step later, without waiting for the device, and
 * the steps are handed over then. Not while the stream is captured. A stage whose time could not be had has
 * none. */
LAGGARD_API void laggard_stage_begin_on(int stage, void* stream);
LAGGARD_API void laggard_stage_end_on(int stage, void* stream);

/* Takes back the innermost call of a stage that is open, as if it had not been begun: a loader was asked for
 * a batch and had none left. */
LAGGARD_API void laggard_stage_drop(int stage);

/* Device (stream) time of a stage in ms, added up within the step: of LAGGARD_CURRENT_STEP, or of an earlier
 * step that is held (laggard_options.held_steps). Without this call the stage has no stream time, which is
 * not 0. */
LAGGARD_API void laggard_stage_device_ms(int stage, int64_t step, double ms);

/* Hands over a held step, and those before it, as nothing more will be said about them. */
LAGGARD_API void laggard_step_release(int64_t step);

/* Of the step: adds to a count (samples, tokens), sets a value, sets a tag (checkpoint, eval, logging: the
 * step is left out of reports; at most 64 different ones), appends indices of the samples used (at most
 * 65536). */
LAGGARD_API void laggard_count(int count, int64_t amount);
LAGGARD_API void laggard_value(int value, double number);
LAGGARD_API void laggard_tag(const char* tag);
LAGGARD_API void laggard_sample_ids(const int64_t* ids, size_t count);

/* Waits until everything handed over is delivered, at most `timeout_ms`: OK or TIMEOUT. */
LAGGARD_API laggard_status laggard_flush(uint32_t timeout_ms);

/* This rank has finished on purpose. Delivers what is left, at most for `timeout_ms`; what is not delivered
 * by then is lost, and stderr says how much. A process that exits without it delivers too, for at most 2 s,
 * but its run then counts as broken off. */
LAGGARD_API laggard_status laggard_end(uint32_t timeout_ms);

typedef struct laggard_stats {
  size_t size;                 /* set by the caller: sizeof(laggard_stats) */
  uint64_t recorded;           /* steps measured, also those that are held */
  uint64_t delivered;          /* items that the collector has made durable: steps, settings, the end */
  uint64_t dropped;            /* items lost because the queue was full; the collector names them by number */
  uint64_t waiting;            /* items that are neither: their sum is recorded + settings + the end */
  uint64_t ignored_calls;      /* calls that made no sense: unknown numbers, ends without a beginning, ... */
  uint64_t other_thread_calls; /* calls from other threads than the one that measures */
  uint32_t connected;          /* 1 while there is a connection to a collector */
  uint64_t device_lost;        /* stages of a step whose device time was not to be had in time, or at all */
} laggard_stats;

/* Since the last laggard_init() that began, also after laggard_end(); from any thread. Anything but OK leaves
 * *stats as it was. */
LAGGARD_API laggard_status laggard_get_stats(laggard_stats* stats);

#ifdef __cplusplus
}
#endif

#endif
