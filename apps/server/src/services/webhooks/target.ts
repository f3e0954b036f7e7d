// Whether a webhook may have a URL. A name without an address is accepted, because its record may not exist yet; every
// attempt checks the address again.
import { Refusal } from '#src/kernel/errors.ts'
import type { KeepAlive } from '#src/kernel/outbound/keep-alive.ts'
import { PostError } from '#src/kernel/outbound/post-error.ts'

export async function checkTarget(client: Pick<KeepAlive, 'check'>, url: string): Promise<void> {
  try {
    await client.check(url)
  } catch (error) {
    if (!(error instanceof PostError)) throw error
    if (error.reason === 'unresolved' || error.reason === 'timeout') return
    throw new Refusal('invalid_webhook_url', `The URL cannot be used for a webhook: ${error.message}`, {
      cause: error,
    })
  }
}
