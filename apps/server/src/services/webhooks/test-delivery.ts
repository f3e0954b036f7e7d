// Sends a test delivery now and tells its result. It is signed like any other, and not recorded.
import type { TestResult } from '@plinth/contract/webhooks.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { createLimiter } from '#src/kernel/limiter.ts'
import type { Log } from '#src/kernel/log.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import type { KeepAlive } from '#src/kernel/outbound/keep-alive.ts'
import { attemptDelivery } from './attempt.ts'
import { signWith } from './secrets.ts'
import type { Target } from './store.ts'
import { checkTarget } from './target.ts'

const timeoutMs = 30_000
const perProject = 2

export function createTestDelivery(client: Pick<KeepAlive, 'check' | 'post'>, sealer: Sealer, log: Log) {
  const limit = createLimiter({
    perKey: perProject,
    maxWaiting: 0,
    rejection: () =>
      new Refusal(
        'over_request_rate_limit',
        `${perProject} tests of this project are under way; wait until one has ended`,
        { headers: { 'retry-after': '10' } },
      ),
  })
  return (target: Target): Promise<TestResult> =>
    limit(target.project_id, async () => {
      await checkTarget(client, target.url)
      const payload = JSON.stringify({
        id: `evt_${crypto.randomUUID().replaceAll('-', '')}`,
        type: 'webhook.test',
        project_id: target.project_id,
        created_at: new Date().toISOString(),
        data: {},
      })
      const { kind, attempt } = await attemptDelivery(
        { client, timeoutMs, log },
        { url: target.url, sign: signWith(sealer, target) },
        { id: orderedUuid(), payload },
      )
      const { status_code, response_body, latency_ms, error } = attempt
      return { success: kind === 'delivered', status_code, response_body, latency_ms, error }
    })
}
