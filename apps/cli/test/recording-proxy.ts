// An HTTP proxy before a real platform that records the requests and can report another version.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { after } from 'node:test'

export interface RecordingProxy {
  url: string
  /** `DELETE /api/v1/projects/…`, in order. */
  requests: string[]
}

export async function recordingProxy(target: string, version?: string): Promise<RecordingProxy> {
  const requests: string[] = []
  const { promise: versionSent, resolve: markVersionSent } = Promise.withResolvers<void>()
  const server = createServer(async (request, response) => {
    requests.push(`${request.method} ${request.url}`)
    const body = await buffer(request)
    const { authorization, 'content-type': type } = request.headers
    const reply = await fetch(target + request.url, {
      method: request.method!,
      headers: { ...(authorization && { authorization }), ...(type && { 'content-type': type }) },
      ...(body.length > 0 && { body: body.toString() }),
    })
    const original = await reply.text()
    const text = version ? original.replace(/"version":"[^"]*"/, `"version":"${version}"`) : original
    // The command waits only briefly for the version after its response, so the version is sent first.
    if (request.url!.startsWith('/health')) markVersionSent()
    else if (version) await versionSent
    response.writeHead(reply.status, { 'content-type': reply.headers.get('content-type') ?? 'text/plain' })
    response.end(text)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests }
}
