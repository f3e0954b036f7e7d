import type { restApi } from '@plinth/contract/rest.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { RawRequest } from '#src/kernel/http/request.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { RestService } from './service.ts'

const table = (request: RawRequest) => request.params['table']!
const name = (request: RawRequest) => request.params['function']!

export const restRoutes = (rest: RestService): Handlers<typeof restApi, Caller> => ({
  read: (_input, caller, request) => rest.read(caller, request, table(request)),
  count: (_input, caller, request) => rest.read(caller, request, table(request)),
  insert: (_input, caller, request) => rest.write(caller, request, table(request), 'insert'),
  put: (_input, caller, request) => rest.write(caller, request, table(request), 'put'),
  update: (_input, caller, request) => rest.write(caller, request, table(request), 'update'),
  remove: (_input, caller, request) => rest.write(caller, request, table(request), 'delete'),
  execSql: (_input, caller, request) => rest.execSql(caller, request),
  callByGet: (_input, caller, request) => rest.call(caller, request, name(request)),
  callByHead: (_input, caller, request) => rest.call(caller, request, name(request)),
  callByPost: (_input, caller, request) => rest.call(caller, request, name(request)),
})
