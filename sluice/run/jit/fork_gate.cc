// SPDX-License-Identifier: Apache-2.0
// Implements the gate with constant-initialised statics: a static constructed on first use would need a gate
// itself.
#include <sluice/run/jit/fork_gate.h>

#include <pthread.h>

namespace sluice {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // held during the fork itself
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
int inside = 0;  // number of threads that hold a gate
bool forking = false;
thread_local int depth = 0;  // number of gates that this thread holds

int own() {
  return depth > 0 ? 1 : 0;
}

void before_fork() {
  pthread_mutex_lock(&mutex);
  forking = true;
  while (inside > own()) pthread_cond_wait(&changed, &mutex);
}

void in_parent() {
  forking = false;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

void in_child() {
  inside = own();
  forking = false;
  changed = PTHREAD_COND_INITIALIZER;  // the child has no waiting threads
  pthread_mutex_unlock(&mutex);
}

[[maybe_unused]] const int registered = pthread_atfork(before_fork, in_parent, in_child);

}  // namespace

ForkGate::ForkGate() {
  if (depth++ > 0) return;
  pthread_mutex_lock(&mutex);
  while (forking) pthread_cond_wait(&changed, &mutex);
  ++inside;
  pthread_mutex_unlock(&mutex);
}

ForkGate::~ForkGate() {
  if (--depth > 0) return;
  pthread_mutex_lock(&mutex);
  --inside;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

}  // namespace sluice
