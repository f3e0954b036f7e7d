// The code of a thread that fails on request, instead of one that plans GraphQL: the name of the engine says how. A thread
// knows the engines that it has opened.
import { parentPort } from 'node:worker_threads'
import type { ToThread } from '#src/services/graphql/thread-messages.ts'

const opened = new Set<string>()

parentPort!.on('message', ({ kind, engine }: ToThread) => {
  if (kind !== 'open' && !opened.has(engine)) return parentPort!.postMessage({ isUnknownEngine: true })
  if (kind === 'open') opened.add(engine)
  if (engine.startsWith('hangs') && kind === 'print') for (;;);
  if (engine.startsWith('ends') && kind === 'plan') process.exit(1)
  if (engine.startsWith('ends beside others') && opened.size > 1) process.exit(1)
  parentPort!.postMessage({ result: `${engine}: ${kind} of ${[...opened].join()}` })
})
