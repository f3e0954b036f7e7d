// The log lines of a project, as services write and read them, and the answers of its access log.
import type { Answered } from '#src/kernel/http/observation.ts'

export interface LogLine {
  /** The service that logs. */
  source: string
  /** The part of the service, such as the name of a function. */
  name: string
  at: string
  level: string
  event: string
  message: string
  request_id: string | null
  facts: Readonly<Record<string, unknown>>
}

export type StoredLine = Omit<LogLine, 'source'> & { id: string }

export interface LogQuery {
  source: string
  name: string
  /** Only lines after the one with this id, the oldest first. Otherwise the latest. */
  after?: string | undefined
  level?: string | undefined
  requestId?: string | undefined
  limit: number
}

/** Says that answers are missing in the access log. */
export interface DropNotice {
  readonly at: number
  readonly dropped: number
}

/** What is written to the log of a project. */
export type LogItem = LogLine | Answered | DropNotice

export const isLine = (item: LogItem): item is LogLine => 'facts' in item
export const isNotice = (item: LogItem): item is DropNotice => 'dropped' in item
