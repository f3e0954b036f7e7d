import { retryLater } from '#src/kernel/errors.ts'

export const inBackoff = (waitMs: number) =>
  retryLater(
    'WORKER_BACKOFF',
    'The worker of this project has crashed and will be started again shortly',
    Math.ceil(waitMs / 1000),
    'The log of the function has the reason.',
  )

export const busy = () => retryLater('WORKER_BUSY', 'All workers are in use; try again in a second', 1)
