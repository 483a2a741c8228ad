/* A job that calls the library as tests want it, and prints what it saw as one line of JSON.
 *
 *   api_load loop STEPS STEP_US   steps with two stages, STEP_US between them (0: as fast as it can), end
 *   api_load exit STEPS [MS]      as fast as it can, a flush of MS, no end
 *   api_load _exit STEPS MS       gone without a word, MS after the last step
 *   api_load flush STEPS STEP_US  a flush after each step, up to STEP_US after the one before, end
 *   api_load shapes STEPS         optional stages, in another combination in each step, end
 *   api_load fork STEPS           four children in the middle: two return, one calls _exit, one calls the
 * library */
#include <laggard/laggard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALLS_PER_STEP 7

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int compare(const void* left, const void* right) {
  const int64_t a = *(const int64_t*)left, b = *(const int64_t*)right;
  return (a > b) - (a < b);
}

static int64_t* times;
static long timed = 0;

#define TIMED(call)                    \
  do {                                 \
    const int64_t begin = now_ns();    \
    call;                              \
    times[timed++] = now_ns() - begin; \
  } while (0)

static int forward, backward, samples;

static void step(long number) {
  TIMED(laggard_step_begin(number));
  TIMED(laggard_stage_begin(forward));
  TIMED(laggard_stage_end(forward));
  TIMED(laggard_stage_begin(backward));
  TIMED(laggard_stage_end(backward));
  TIMED(laggard_count(samples, 1));
  TIMED(laggard_step_end());
}

#define OPTIONAL_STAGES 12

/* Those of the optional stages whose bit is set in the number. */
static void step_of_shape(long number) {
  static int optional[OPTIONAL_STAGES];
  char name[] = "optional stage a";
  for (int i = 0; number == 1 && i < OPTIONAL_STAGES; ++i, ++name[sizeof name - 2])
    optional[i] = laggard_stage_id(name, LAGGARD_KIND_DEFAULT);
  TIMED(laggard_step_begin(number));
  for (int i = 0; i < OPTIONAL_STAGES; ++i) {
    if ((number >> i & 1) == 0) continue;
    laggard_stage_begin(optional[i]);
    laggard_stage_end(optional[i]);
  }
  TIMED(laggard_step_end());
}

static void pause_us(long us) {
  struct timespec time = {us / 1000000, us % 1000000 * 1000};
  if (us > 0) nanosleep(&time, NULL);
}

static int fork_child(int which) {
  const pid_t child = fork();
  if (child != 0) return child;
  if (which == 2) _exit(0);
  if (which == 3) {
    laggard_step_begin(1000000);
    laggard_step_end();
    if (laggard_init(NULL) != LAGGARD_FORKED || laggard_flush(1000) != LAGGARD_FORKED) exit(1);
  }
  exit(0);
}

static int fork_children(void) {
  pid_t children[4];
  int failed = 0, status = 0;
  for (int i = 0; i < 4; ++i) children[i] = fork_child(i);
  for (int i = 0; i < 4; ++i)
    if (waitpid(children[i], &status, 0) != children[i] || status != 0) ++failed;
  return failed;
}

static long early = 0; /* flushes that said OK before everything was delivered */

static void flush_step(void) {
  laggard_stats stats = {.size = sizeof stats};
  if (laggard_flush(5000) != LAGGARD_OK) return;
  laggard_get_stats(&stats);
  if (stats.delivered < stats.recorded + 1) ++early; /* the settings too */
}

static void report(int children_failed) {
  laggard_stats stats = {.size = sizeof stats};
  laggard_get_stats(&stats);
  qsort(times, (size_t)timed, sizeof *times, compare);
  printf(
      "{\"calls\": %ld, \"p50_ns\": %lld, \"p99_ns\": %lld, \"max_ns\": %lld, \"recorded\": %llu, "
      "\"delivered\": %llu, \"dropped\": %llu, \"waiting\": %llu, \"connected\": %u, \"children_failed\": "
      "%d, \"early\": %ld}\n",
      timed, (long long)times[timed / 2], (long long)times[timed / 100 * 99], (long long)times[timed - 1],
      (unsigned long long)stats.recorded, (unsigned long long)stats.delivered,
      (unsigned long long)stats.dropped, (unsigned long long)stats.waiting, stats.connected, children_failed,
      early);
  fflush(stdout);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* mode = argv[1];
  const long steps = atol(argv[2]), last = argc > 3 ? atol(argv[3]) : 0;
  const int loop = strcmp(mode, "loop") == 0, forks = strcmp(mode, "fork") == 0;
  const int flushes = strcmp(mode, "flush") == 0, shapes = strcmp(mode, "shapes") == 0;
  times = malloc(sizeof *times * (size_t)steps * CALLS_PER_STEP);
  if (times == NULL) return 2;
  laggard_init(NULL);
  forward = laggard_stage_id("forward", LAGGARD_KIND_DEFAULT);
  backward = laggard_stage_id("backward", LAGGARD_KIND_SYNC);
  samples = laggard_count_id("samples");
  int children_failed = 0;
  for (long number = 1; number <= steps; ++number) {
    if (shapes) {
      step_of_shape(number);
    } else {
      step(number);
    }
    if (forks && number % (steps / 4) == 0) children_failed += fork_children();
    if (flushes) flush_step();
    pause_us(loop ? last : flushes ? number * 37 % (last + 1) : forks ? 1000 : 0);
  }
  if (strcmp(mode, "_exit") == 0) {
    pause_us(last * 1000);
    _exit(0);
  }
  if (strcmp(mode, "exit") == 0 && last > 0) laggard_flush((uint32_t)last);
  if (loop || forks || flushes || shapes) laggard_end(2000);
  report(children_failed);
  free(times);
  return 0;
}
