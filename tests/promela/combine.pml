// SPDX-License-Identifier: Apache-2.0
// How the peers of a shared tile come together (combine_tile in sluice/kernels/gemm.cuh), as a model for spin, and
// two launches one after the other on the same workspace. tests/promela/run.sh verifies it, and that each of
// the planted bugs below is found.
//
// Memory is weaker than spin's: a peer's write first stands in its own buffer (`pending`), and others see it
// (`slot`) some time later: when `drain` moves it, or when the peer releases it with its atomic. A peer that
// reads early sees what the launch before has left there, which the asserts tell apart by the launch's number.
// The whole math group of a peer is one process: what its warps do among themselves, the host twin explores
// (sluice/twin/combine_model.h).
//
//   -DNO_DRAIN           the atomic does not release the write (relaxed; or no group barrier before it)
//   -DEARLY_RESET        each peer sets the counter to zero after it has counted, not only the last by wrapping
//   -DNO_WRAP            the counter goes on counting
//   -DWRITE_BEFORE_WAIT  a launch writes its slots before the launch before it has ended: without
//                        griddepcontrol.wait
//   -DCOUNT_BEFORE_WAIT  and counts itself, too
#ifndef PEERS
#define PEERS 3
#endif
#define LAUNCHES 2

byte counter;              // zero before the first launch, and never set by the host again
byte slot[PEERS];          // the launch whose sums all may see there; 0: none
byte pending[PEERS];       // the launch whose sums the peer has written and that may not be seen yet; 0: none
byte last[LAUNCHES + 1];   // how many peers of the launch were the last
byte ended[LAUNCHES + 1];  // peers of the launch that have ended

inline drain(p) {
  atomic {
    if
    :: pending[p] != 0 -> slot[p] = pending[p]; pending[p] = 0
    :: else
    fi
  }
}

inline wait_for_the_launch_before(launch) {
  (launch == 1 || ended[launch - 1] == PEERS)
}

proctype Peer(byte launch; byte rank) {
  byte old, i;

#ifndef COUNT_BEFORE_WAIT
#ifndef WRITE_BEFORE_WAIT
  wait_for_the_launch_before(launch);
#endif
#endif

  atomic {  // write_partial; the slot's old sums, if any, go their way first
    if
    :: pending[rank] != 0 -> slot[rank] = pending[rank]
    :: else
    fi;
    pending[rank] = launch
  }

#ifdef WRITE_BEFORE_WAIT
  wait_for_the_launch_before(launch);
#endif

  atomic {  // publish_partial and is_last_arriver: atom.acq_rel.inc, which wraps at PEERS - 1
#ifndef NO_DRAIN
    if
    :: pending[rank] != 0 -> slot[rank] = pending[rank]; pending[rank] = 0
    :: else
    fi;
#endif
    old = counter;
#ifdef NO_WRAP
    counter = counter + 1
#else
    counter = (old >= PEERS - 1 -> 0 : old + 1)
#endif
  }
#ifdef EARLY_RESET
  counter = 0;
#endif

  if
  :: old == PEERS - 1 ->
    last[launch]++;
    i = 0;
    do  // sum_partials, slot by slot
    :: i < PEERS -> assert(slot[i] == launch); i++
    :: else -> break
    od
  :: else
  fi;

  atomic {
    ended[launch]++;
    if
    :: ended[launch] == PEERS ->
      assert(last[launch] == 1);
      assert(counter == 0)
    :: else
    fi
  }
}

/// Written sums come out at any moment. Ends when all is done.
active proctype Memory() {
  byte p;
end:
  do
  :: atomic { pending[0] != 0 -> drain(0) }
#if PEERS > 1
  :: atomic { pending[1] != 0 -> drain(1) }
#endif
#if PEERS > 2
  :: atomic { pending[2] != 0 -> drain(2) }
#endif
#if PEERS > 3
  :: atomic { pending[3] != 0 -> drain(3) }
#endif
  od
}

init {
  byte launch, rank;
  atomic {
    launch = 1;
    do
    :: launch <= LAUNCHES ->
      rank = 0;
      do
      :: rank < PEERS -> run Peer(launch, rank); rank++
      :: else -> break
      od;
      launch++
    :: else -> break
    od
  }
}
