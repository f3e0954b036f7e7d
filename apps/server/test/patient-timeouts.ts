import type { Timeouts } from '#src/services/realtime/changes/policy-checks.ts'

/** For tests of the results of policy checks, on a machine of any speed. */
export const patientTimeouts: Timeouts = { chunkMs: () => 120_000, singleMs: () => 120_000 }
