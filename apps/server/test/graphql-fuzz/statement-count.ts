// Counts the statements that the platform sends to Postgres for each request. Requests are distinguished by a header, which is
// part of the request's settings in each transaction.
import type { TapListener } from '../fuzz/tap.ts'

export const markHeader = 'x-fuzz-document'

export interface StatementCount extends TapListener {
  /** The number of statements of the request with this mark, which is then forgotten. */
  take(mark: string): number
  /** Marks of requests that sent statements after they were taken, or that nobody took. */
  left(): string[]
}

interface Sent {
  shared: number
  alone: number
  readonly texts: Set<string>
}

/**
 * A statement that takes longer than 100 ms on a shared connection, where statements are named, is cancelled and runs again
 * on its own connection. Both runs together count once.
 */
const countOf = ({ shared, alone, texts }: Sent): number => Math.max(shared, alone, texts.size)

const marked = new RegExp(`"${markHeader}":"([^"]+)"`)

export function countStatements(): StatementCount {
  const requests = new Map<string, Sent>()

  function add(mark: string, text: string, isNamed: boolean): void {
    const sent = requests.get(mark) ?? { shared: 0, alone: 0, texts: new Set() }
    requests.set(mark, sent)
    sent[isNamed ? 'shared' : 'alone']++
    sent.texts.add(text)
  }

  return {
    onStatement() {},
    onValues() {},
    /** The settings of a request are the first statement of a transaction that has its mark. */
    onSession() {
      let mark: string | undefined
      return {
        onRun(text, isNamed, values) {
          if (mark !== undefined) add(mark, text, isNamed)
          else mark = marked.exec(values.toString('latin1'))?.[1]
        },
        onSync() {
          mark = undefined
        },
      }
    },
    take(mark) {
      const sent = requests.get(mark)
      requests.delete(mark)
      return sent ? countOf(sent) : 0
    },
    left: () => [...requests.keys()],
  }
}
