// Unsupported methods return an error, and every method of the client is tested or listed as unsupported.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  nestedClients,
  publicMethods,
  requiredMethods,
  unsupported,
  unsupportedClients,
} from './storage-recorder.ts'
import { shapes } from './storage-shapes.ts'
import { done, type Stage, statusAndCode } from './storage-stage.ts'

export function unsupportedTests(stage: () => Stage): void {
  test('bucket lifecycles, vectors and analytics are rejected with an error', async () => {
    const { service } = stage()
    const rules = { rules: [] }
    const calls: Record<string, () => Promise<{ error: unknown }>> = {
      getBucketLifecycle: () => service.getBucketLifecycle('private'),
      updateBucketLifecycle: () => service.updateBucketLifecycle('private', rules),
      deleteBucketLifecycle: () => service.deleteBucketLifecycle('private'),
      'vectors.listBuckets': () => service.vectors.listBuckets(),
      'vectors.createBucket': () => service.vectors.createBucket('v'),
      'analytics.listBuckets': () => service.analytics.listBuckets(),
      'analytics.createBucket': () => service.analytics.createBucket('a'),
    }
    for (const [what, refuse] of Object.entries(calls)) {
      const [status] = statusAndCode((await refuse()).error)
      assert.ok([404, 405, 501].includes(status as number), `${what}: ${status}`)
    }
    const { data } = await service.listBuckets()
    assert.deepEqual(
      data?.map(each => each.id).filter(id => ['a', 'v'].includes(id)),
      [],
    )
    assert.equal(done(await service.getBucket('private')).id, 'private')
  })

  test('every method of the client is called by this suite or listed as unsupported', () => {
    const client = shapes[0]!.connect('http://127.0.0.1:1', 'any', 'key')
    const methods = publicMethods(client)
    assert.ok(methods.length > 30)
    const known: readonly string[] = [...Object.values(requiredMethods).flat(), ...unsupported]
    assert.deepEqual(
      methods.filter(method => !known.includes(method)),
      [],
      'a new method needs a test',
    )
    assert.deepEqual(
      known.filter(method => !methods.includes(method)),
      [],
      'a removed method needs no test',
    )
    assert.deepEqual(nestedClients(client).sort(), unsupportedClients)
  })
}
