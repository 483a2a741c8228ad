/* A training loop that hands its steps over to laggard.
 *
 *   LAGGARD_RUN=mine LAGGARD_RANK=0 LAGGARD_WORLD_SIZE=1 training_loop STEPS STEP_MS
 *
 * laggard itself installs no signal handler. A job that wants its last steps delivered when it is told to
 * stop does as this one: it ends its loop. */
#include <laggard/laggard.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile sig_atomic_t told_to_stop = 0;

static void on_sigterm(int signal_number) {
  (void)signal_number;
  told_to_stop = 1;
}

/* Stands for what a GPU is busy with. */
static void work(double ms) {
  struct timespec time = {(time_t)(ms / 1000), (long)(ms * 1e6) % 1000000000L};
  nanosleep(&time, NULL);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s STEPS STEP_MS\n", argv[0]);
    return 2;
  }
  const long steps = atol(argv[1]);
  const double step_ms = atof(argv[2]);
  signal(SIGTERM, on_sigterm);

  /* Whatever goes wrong here, the job goes on without laggard. */
  laggard_options options = LAGGARD_OPTIONS_INIT;
  options.config = "{\"global_batch\": 64}";
  laggard_init(&options);
  const int load = laggard_stage_id("load", LAGGARD_KIND_INPUT);
  const int forward = laggard_stage_id("forward", LAGGARD_KIND_DEFAULT);
  const int attention = laggard_stage_id("attention", LAGGARD_KIND_DEFAULT);
  const int backward = laggard_stage_id("backward", LAGGARD_KIND_SYNC);
  const int samples = laggard_count_id("samples");

  for (long step = 1; step <= steps && !told_to_stop; ++step) {
    laggard_step_begin(step);
    laggard_stage_begin(load);
    work(step_ms * 0.1);
    laggard_stage_end(load);
    laggard_stage_begin(forward);
    for (int layer = 0; layer < 2; ++layer) {
      laggard_stage_begin(attention);
      work(step_ms * 0.1);
      laggard_stage_end(attention);
    }
    work(step_ms * 0.2);
    laggard_stage_end(forward);
    laggard_stage_begin(backward);
    work(step_ms * 0.5);
    laggard_stage_end(backward);
    laggard_count(samples, 64);
    laggard_step_end();
  }
  if (!told_to_stop) laggard_end(2000);
  return 0;
}
