// Stands before a real platform, remembers what was asked, and may claim another version.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { after } from 'node:test'

export interface Relay {
  url: string
  /** `DELETE /api/v1/projects/…`, in order. */
  asked: string[]
}

export async function relay(target: string, version?: string): Promise<Relay> {
  const asked: string[] = []
  const server = createServer(async (request, response) => {
    asked.push(`${request.method} ${request.url}`)
    const body = await buffer(request)
    const { authorization, 'content-type': type } = request.headers
    const reply = await fetch(target + request.url, {
      method: request.method!,
      headers: { ...(authorization && { authorization }), ...(type && { 'content-type': type }) },
      ...(body.length > 0 && { body: body.toString() }),
    })
    const text = await reply.text()
    const said = version ? text.replace(/"version":"[^"]*"/, `"version":"${version}"`) : text
    response.writeHead(reply.status, { 'content-type': reply.headers.get('content-type') ?? 'text/plain' })
    response.end(said)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}
