// The contract types that the SDK exports. The build expands them, so that the published types need no contract.
import type { SetBody } from '@plinth/contract/cache.ts'
import type { Job, JobDefinition, Run } from '@plinth/contract/cron.ts'
import type { ErrorCode } from '@plinth/contract/errors.ts'
import type { ArchivedMessage, Message, Queue, QueueMetrics } from '@plinth/contract/queue.ts'

export type { ArchivedMessage, ErrorCode, Job, JobDefinition, Message, Queue, QueueMetrics, Run, SetBody }
