// The code of a thread that plans requests for large schemas.
import { parentPort } from 'node:worker_threads'
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import { atOnce } from '#src/kernel/slices.ts'
import { readFacts } from '#src/query/catalog-facts.ts'
import { catalogFrom } from '#src/query/catalog-from.ts'
import { reflectionFrom } from '#src/query/reflection.ts'
import { DocumentProblem } from './compile/problem.ts'
import {
  createEngine,
  type DocumentRequest,
  type Engine,
  type PlannedRequest,
  schemaChanges,
} from './engine.ts'
import type { Shown } from './introspection.ts'
import { Recent } from './recent.ts'
import type { FromThread, ToThread } from './thread-messages.ts'

/** By the bytes of their facts: a schema takes about fifty times as much. */
const maxEngines = { number: 20, bytes: 8_000_000 }
/** Larger ones count as much, because each must be kept at least until its first request. */
const maxEngineBytes = maxEngines.bytes / 4
const engines = new Recent<Engine>(maxEngines.number, maxEngines.bytes)

parentPort!.on('message', (message: ToThread) => {
  const answer = answerTo(message)
  parentPort!.postMessage(answer, buffersIn(answer))
})

function answerTo(message: ToThread): FromThread {
  try {
    if (message.kind === 'open') {
      const bytes = message.catalog.length + message.reflection.length
      engines.set(message.engine, open(message), Math.min(bytes, maxEngineBytes))
      return { result: undefined }
    }
    const engine = engines.get(message.engine)
    if (!engine) return { isUnknownEngine: true }
    return { result: message.kind === 'plan' ? planBy(engine, message.request) : engine.print() }
  } catch (error) {
    if (error instanceof DocumentProblem && error.problem.kind === 'invalid query')
      return { problem: error.problem.messages }
    return { failure: error instanceof Error ? (error.stack ?? error.message) : String(error) }
  }
}

/** Copies the answer about the schema, because the engine keeps it and the message takes it away. */
function planBy(engine: Engine, request: DocumentRequest): PlannedRequest {
  const planned = atOnce(engine.plan(request))
  if (!planned.shown) return planned
  const shown = Object.entries(planned.shown).map(([name, text]) => [name, new Uint8Array(text)])
  return { ...planned, shown: Object.fromEntries(shown) as Shown }
}

/** Texts that move to the platform without a copy. */
function buffersIn(answer: FromThread): ArrayBuffer[] {
  if (!('result' in answer) || typeof answer.result !== 'object') return []
  return Object.values(answer.result.shown ?? {}).map(text => text.buffer as ArrayBuffer)
}

function open({ catalog, reflection, version, schemas, options }: ToThread & { kind: 'open' }): Engine {
  const facts = atOnce(readFacts(rowsIn(catalog)))
  const reflected = atOnce(reflectionFrom(rowsIn(reflection)))
  if (facts.version !== version || reflected.version !== version) throw new DocumentProblem(schemaChanges)
  return createEngine(atOnce(catalogFrom(facts, schemas)), reflected, options)
}

/** Each line has the kind of a fact, a tab and its JSON text. */
function rowsIn(lines: Uint8Array): Cell[][] {
  const bytes = Buffer.from(lines.buffer, lines.byteOffset, lines.byteLength)
  const rows: Cell[][] = []
  for (let at = 0; at < bytes.length; ) {
    const tab = bytes.indexOf('\t', at)
    const end = bytes.indexOf('\n', tab)
    rows.push([bytes.subarray(at, tab), bytes.subarray(tab + 1, end)])
    at = end + 1
  }
  return rows
}
