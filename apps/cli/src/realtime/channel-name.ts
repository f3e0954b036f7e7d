// What people call a channel, as the platform calls it.
import { Failure } from '../failure.ts'

export interface ChannelName {
  topic: string
  /** The table whose changes are asked for. */
  table: { schema: string; table: string; filter?: string } | null
  /** Named as a table, so that it is a mistake when there is none. */
  isTable: boolean
}

const begin = 'realtime:'

export function channelName(given: string): ChannelName {
  const isTable = !given.startsWith(begin)
  const named = isTable ? given : given.slice(begin.length)
  const inSchema = isTable && !named.includes(':') ? `public:${named}` : named
  const [, schema, table, filter] = /^([^:]+):([^:]+)(?::(.+))?$/s.exec(inSchema) ?? []
  if (isTable && !table) throw unreadable(given)
  if (named === '') throw unreadable(given)
  return {
    topic: begin + inSchema,
    table: schema && table ? { schema, table, ...(filter && { filter }) } : null,
    isTable,
  }
}

const unreadable = (given: string) =>
  new Failure(
    'usage_invalid_value',
    `--channel cannot be "${given}".`,
    'Name a table, schema:table, schema:table:column=eq.value, or realtime:<channel>.',
  )
