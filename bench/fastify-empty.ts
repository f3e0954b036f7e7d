// The reference of bench/admission.ts: the answer of /v1/whoami, from Fastify alone.
import Fastify from 'fastify'

const app = Fastify(process.env['REFERENCE_LOGS'] ? { logger: { level: 'info' } } : {})
const text = { type: 'string' }
const reply = {
  type: 'object',
  properties: { project_id: text, role: text, user_id: { anyOf: [text, { type: 'null' }] } },
}
const answer = { project_id: '00000000-0000-4000-8000-000000000000', role: 'anon', user_id: null }
app.get('/', { schema: { response: { 200: reply } } }, async () => ({ ...answer }))
process.stderr.write(`running at ${await app.listen({ host: '127.0.0.1', port: 0 })}\n`)
process.on('SIGTERM', () => void app.close())
