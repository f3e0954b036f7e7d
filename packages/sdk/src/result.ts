import { PlinthError } from './error.ts'

/** The result of every call: data or an error, as in supabase-js. Calls do not throw. */
export type Result<T> = { data: T; error: null } | { data: null; error: PlinthError }

/** The last argument of every call. */
export interface CallOptions {
  /** Aborts the call. `AbortSignal.timeout(ms)` sets a timeout. */
  signal?: AbortSignal | undefined
}

/** @internal */
export async function mapResult<A, B>(answer: Promise<Result<A>>, map: (data: A) => B): Promise<Result<B>> {
  const { data, error } = await answer
  if (error) return { data: null, error }
  try {
    return { data: map(data as A), error: null }
  } catch (cause) {
    const fields = { code: 'unexpected_answer', status: 200, cause }
    return { data: null, error: new PlinthError('The answer does not have the format of Plinth', fields) }
  }
}
