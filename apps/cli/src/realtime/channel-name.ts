// Parses --channel into the topic and the table of a subscription.
import { Failure } from '../failure.ts'

export interface ChannelName {
  topic: string
  /** The table to subscribe to. */
  table: { schema: string; table: string; filter?: string } | null
  /** Written as a table, so a missing table is an error. */
  isTable: boolean
}

const prefix = 'realtime:'

export function channelName(given: string): ChannelName {
  const isTable = !given.startsWith(prefix)
  const named = isTable ? given : given.slice(prefix.length)
  const inSchema = isTable && !named.includes(':') ? `public:${named}` : named
  const [, schema, table, filter] = /^([^:]+):([^:]+)(?::(.+))?$/s.exec(inSchema) ?? []
  if (isTable && !table) throw invalid(given)
  if (named === '') throw invalid(given)
  return {
    topic: prefix + inSchema,
    table: schema && table ? { schema, table, ...(filter && { filter }) } : null,
    isTable,
  }
}

const invalid = (given: string) =>
  new Failure(
    'usage_invalid_value',
    `--channel cannot be "${given}".`,
    'Name a table, schema:table, schema:table:column=eq.value, or realtime:<channel>.',
  )
