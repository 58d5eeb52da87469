/* A clock that is CLOCK_AHEAD_SECONDS ahead of the machine's, for a process with this library in LD_PRELOAD.
 *
 * Only the time of day is shifted. Monotonic clocks are the machine's, and waits take their usual time: a wait until a
 * time of day that was calculated with the shifted clock ends when that clock shows it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static time_t ahead_seconds;
static int (*posix_wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*c11_wait)(cnd_t *, mtx_t *, const struct timespec *);

__attribute__((constructor)) static void set_up(void)
{
    const char *value = getenv("CLOCK_AHEAD_SECONDS");
    ahead_seconds = value ? atol(value) : 0;
    /* Without the version dlsym finds an older function of the same name. */
    posix_wait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    c11_wait = dlvsym(RTLD_NEXT, "cnd_timedwait", "GLIBC_2.28");
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead_seconds;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int failed = syscall(SYS_gettimeofday, now, zone);
    if (!failed)
        now->tv_sec += ahead_seconds;
    return failed;
}

time_t time(time_t *result)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}

/* Convert a time of day that is closer to the shifted clock than to the machine's to the machine's clock. */
static struct timespec to_machine(struct timespec until)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    /* A much smaller time is relative to the start of the machine. */
    if (until.tv_sec > now.tv_sec / 2 &&
        labs(until.tv_sec - now.tv_sec - ahead_seconds) < labs(until.tv_sec - now.tv_sec))
        until.tv_sec -= ahead_seconds;
    return until;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    struct timespec machine = to_machine(*until);
    return posix_wait(condition, mutex, &machine);
}

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until)
{
    struct timespec machine = to_machine(*until);
    return c11_wait(condition, mutex, &machine);
}
