/* SPDX-License-Identifier: Apache-2.0 */
/* A user's program in C without a GPU, through the installed header and libsluice_c.so: plan, read the plan,
 * get a documented error. Built by CMake (sluice::sluice_c) and by pkg-config. */
#include <sluice/c_api.h>
#include <stdio.h>

int main(void) {
  sluice_call call = sluice_new_call();
  sluice_plan* plan = NULL;
  call.problem.m = call.problem.n = call.problem.k = 4096;
  if (sluice_c_abi() != SLUICE_C_ABI) return 1;
  if (sluice_plan_create(NULL, &call, NULL, &plan) != SLUICE_OK) return puts(sluice_error_message()), 2;
  printf("%s", sluice_plan_text(plan));
  sluice_plan_free(plan);
  call.problem.m = -1;
  return sluice_plan_create(NULL, &call, NULL, &plan) == SLUICE_INVALID_SIZE ? 0 : 3;
}
