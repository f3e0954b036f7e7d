// Rewrites statements about triggers on auth tables, for which Postgres requires ownership of the table. Project owners do
// not have it, but may call procedures that do the same for their own triggers
// (migrations/project/functions/auth_triggers.sql). Migrations of existing applications contain the statements, so the
// platform sends the call instead. A statement that is not recognised for certain is sent unchanged, and Postgres rejects it.
import { literal } from '#src/kernel/postgres/sql.ts'
import type { ScriptStatement } from '#src/kernel/postgres/statements.ts'
import type { Sliced } from '#src/kernel/slices.ts'
import { NotRecognised, StatementReader } from './statement-reader.ts'

export interface Replacement {
  /** The rewritten SQL. */
  readonly text: string
  /** The command tag of the original statement. */
  readonly tag: string
}

/** Longer statements are sent unchanged. */
const maxLength = 65_536

interface Kind {
  readonly words: readonly string[]
  readonly tag: string
  /** The equivalent procedure calls. */
  read(reader: StatementReader): string[]
}

const kinds: readonly Kind[] = [
  {
    words: ['DROP', 'TRIGGER'],
    tag: 'DROP TRIGGER',
    read(reader) {
      const missingOk = reader.accepts('IF', 'EXISTS')
      const trigger = reader.name()
      reader.expect('ON')
      const table = authTable(reader)
      if (!reader.accepts('CASCADE')) reader.accepts('RESTRICT')
      return [`drop_auth_trigger(${literal(table)}, ${literal(trigger)}, ${missingOk})`]
    },
  },
  {
    words: ['ALTER', 'TRIGGER'],
    tag: 'ALTER TRIGGER',
    read(reader) {
      const trigger = reader.name()
      reader.expect('ON')
      const table = authTable(reader)
      reader.expect('RENAME', 'TO')
      return [`rename_auth_trigger(${literal(table)}, ${literal(trigger)}, ${literal(reader.name())})`]
    },
  },
  {
    words: ['COMMENT', 'ON', 'TRIGGER'],
    tag: 'COMMENT',
    read(reader) {
      const trigger = reader.name()
      reader.expect('ON')
      const table = authTable(reader)
      reader.expect('IS')
      const comment = reader.accepts('NULL') ? 'null' : literal(reader.string())
      return [`comment_on_auth_trigger(${literal(table)}, ${literal(trigger)}, ${comment})`]
    },
  },
  {
    words: ['ALTER', 'TABLE'],
    tag: 'ALTER TABLE',
    read(reader) {
      const missingOk = reader.accepts('IF', 'EXISTS')
      reader.accepts('ONLY')
      const table = authTable(reader)
      const calls: string[] = []
      do {
        const state = stateOf(reader)
        reader.expect('TRIGGER')
        // ALL and USER include triggers of the platform.
        if (reader.accepts('ALL') || reader.accepts('USER')) throw new NotRecognised()
        const trigger = reader.name()
        calls.push(
          `set_auth_trigger(${literal(table)}, ${literal(trigger)}, ${literal(state)}, ${missingOk})`,
        )
      } while (reader.acceptsSign(','))
      return calls
    },
  },
]

function stateOf(reader: StatementReader): string {
  if (reader.accepts('DISABLE')) return 'disable'
  reader.expect('ENABLE')
  if (reader.accepts('ALWAYS')) return 'enable always'
  return reader.accepts('REPLICA') ? 'enable replica' : 'enable'
}

/** Requires the schema, because an unqualified name depends on the search path. */
function authTable(reader: StatementReader): string {
  if (reader.name() !== 'auth' || !reader.acceptsSign('.')) throw new NotRecognised()
  return reader.name()
}

export function authTriggerCall({ text, words }: ScriptStatement): Replacement | undefined {
  const kind = kinds.find(each => each.words.every((word, place) => words[place] === word))
  if (!kind || text.length > maxLength) return
  const reader = new StatementReader(text)
  try {
    reader.expect(...kind.words)
    const calls = kind.read(reader).map(call => `call platform.${call}`)
    reader.expectEnd()
    // The actions of one statement are atomic, also outside a transaction.
    const sent = calls.length === 1 ? calls[0]! : `do ${literal(`begin ${calls.join('; ')}; end`)}`
    return { text: sent, tag: kind.tag }
  } catch (error) {
    if (error instanceof NotRecognised) return
    throw error
  }
}

const perSlice = 500

/** Returns the script with the calls, and the command tag of its last statement if that was replaced. */
export function* withAuthTriggerCalls(
  script: string,
  statements: readonly ScriptStatement[],
): Sliced<{ text: string; lastTag: string | undefined }> {
  const parts: string[] = []
  let copied = 0
  let lastTag: string | undefined
  for (const [place, statement] of statements.entries()) {
    if (place > 0 && place % perSlice === 0) yield
    const replacement = authTriggerCall(statement)
    lastTag = replacement?.tag
    if (!replacement) continue
    parts.push(script.slice(copied, statement.start), replacement.text)
    copied = statement.start + statement.text.length
  }
  return { text: parts.join('') + script.slice(copied), lastTag }
}
