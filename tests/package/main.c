/* SPDX-License-Identifier: Apache-2.0 */
/* A user's program in C without a GPU, through the installed header and libsluice_c.so: plan, read the plan,
 * get a documented error. Built by CMake (sluice::sluice_c) and by pkg-config. */
#include <sluice/c_api.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  sluice_problem problem;
  sluice_plan* plan = NULL;
  memset(&problem, 0, sizeof problem);
  problem.m = problem.n = problem.k = 4096;
  problem.batch = 1;
  if (sluice_c_abi() != SLUICE_C_ABI) return 1;
  if (sluice_plan_create(NULL, &problem, NULL, &plan) != SLUICE_OK) return puts(sluice_error_message()), 2;
  printf("%s", sluice_plan_text(plan));
  sluice_plan_free(plan);
  problem.m = -1;
  return sluice_plan_create(NULL, &problem, NULL, &plan) == SLUICE_INVALID_SIZE ? 0 : 3;
}
