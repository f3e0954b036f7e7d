import { PlinthError } from './error.ts'

/** What every call resolves to: data or an error, as in supabase-js. Nothing is thrown. */
export type Result<T> = { data: T; error: null } | { data: null; error: PlinthError }

/** What every call takes as its last argument. */
export interface CallOptions {
  /** Ends the call when aborted; `AbortSignal.timeout(ms)` limits how long it may take. */
  signal?: AbortSignal | undefined
}

/** @internal */
export async function picked<A, B>(answer: Promise<Result<A>>, pick: (data: A) => B): Promise<Result<B>> {
  const { data, error } = await answer
  if (error) return { data: null, error }
  try {
    return { data: pick(data as A), error: null }
  } catch (cause) {
    const facts = { code: 'unexpected_answer', status: 200, cause }
    return { data: null, error: new PlinthError('The answer is not the one Plinth gives to this', facts) }
  }
}
