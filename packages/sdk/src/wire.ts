// The shapes of the contract that applications meet. The build writes them out in full, so that the published
// types need neither the contract nor its schemas.
import type { SetBody } from '@plinth/contract/cache.ts'
import type { Job, JobWish, Run } from '@plinth/contract/cron.ts'
import type { ErrorCode } from '@plinth/contract/errors.ts'
import type { ArchivedMessage, Message, Queue, QueueMetrics } from '@plinth/contract/queue.ts'

export type { ArchivedMessage, ErrorCode, Job, JobWish, Message, Queue, QueueMetrics, Run, SetBody }
