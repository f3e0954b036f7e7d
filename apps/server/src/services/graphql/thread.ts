// The code of a thread that plans requests for large schemas.
import { parentPort } from 'node:worker_threads'
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import { atOnce } from '#src/kernel/slices.ts'
import { readFacts } from '#src/query/catalog-facts.ts'
import { catalogFrom } from '#src/query/catalog-from.ts'
import { reflectionFrom } from '#src/query/reflection.ts'
import { DocumentProblem } from './compile/problem.ts'
import { createEngine, type Engine } from './engine.ts'
import { Recent } from './recent.ts'
import type { FromThread, ToThread } from './thread-messages.ts'

const maxEngines = 6
const engines = new Recent<Engine>(maxEngines)

parentPort!.on('message', (message: ToThread) => parentPort!.postMessage(answerTo(message)))

function answerTo(message: ToThread): FromThread {
  const { id } = message
  try {
    if (message.kind === 'open') {
      engines.set(message.engine, open(message))
      return { id, result: undefined }
    }
    const engine = engines.get(message.engine)
    if (!engine) return { id, isUnknownEngine: true }
    return { id, result: message.kind === 'plan' ? engine.plan(message.request) : engine.print() }
  } catch (error) {
    if (error instanceof DocumentProblem && error.problem.kind === 'invalid query')
      return { id, problem: error.problem.messages }
    return { id, failure: error instanceof Error ? (error.stack ?? error.message) : String(error) }
  }
}

function open({ catalog, reflection, schemas, options }: ToThread & { kind: 'open' }): Engine {
  const facts = atOnce(readFacts(rowsIn(catalog)))
  return createEngine(
    atOnce(catalogFrom(facts, schemas)),
    atOnce(reflectionFrom(rowsIn(reflection))),
    options,
  )
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
