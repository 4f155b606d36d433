BEGIN TRANSACTION;
CREATE TABLE toolstile_decisions (
    decision_id TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
CREATE TABLE toolstile_effects (
    key TEXT NOT NULL PRIMARY KEY,
    tool_name TEXT NOT NULL,
    params_hash TEXT NOT NULL,
    effect_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    expires_at INTEGER,
    message BLOB,
    value BLOB,
    excluded INTEGER NOT NULL DEFAULT 0,
    changes BLOB,
    unportable TEXT,
    reason TEXT,
    owner TEXT NOT NULL,
    lease REAL NOT NULL,
    secret INTEGER NOT NULL DEFAULT 0
);
INSERT INTO "toolstile_effects" VALUES('call/s/call_0_1:charge:19d540c938473b3b93136ce1318bcfb0f859049d7c25e13023a5d5a43b7ee852','charge','19d540c938473b3b93136ce1318bcfb0f859049d7c25e13023a5d5a43b7ee852','8ef66fb2c4a5224bf80aad0000000000','s','call_0_1',1795868343812727,'done',NULL,X'',X'226368617267656420302D3022',0,X'5B7B22646F223A2022617070656E64222C202274797065223A202272756E5F6472697665723A436861726765222C20226974656D73223A205B7B226B6579223A2022302D30227D5D7D5D',NULL,NULL,'066d8f7a-ef7b-430d-98d5-e196f7604a45/pid:[4026531836]/10528/299277',3023.741689257,0);
INSERT INTO "toolstile_effects" VALUES('call/s/call_0_2:charge:74e2aaae098ff7f116300594257f38e95268405e3693fa2c7a0c7a8d28bf5221','charge','74e2aaae098ff7f116300594257f38e95268405e3693fa2c7a0c7a8d28bf5221','8ef66fb2c4a5224bf80aad0000000001','s','call_0_2',1795868343814096,'done',NULL,X'',X'226368617267656420302D3122',0,X'5B7B22646F223A2022617070656E64222C202274797065223A202272756E5F6472697665723A436861726765222C20226974656D73223A205B7B226B6579223A2022302D31227D5D7D5D',NULL,NULL,'066d8f7a-ef7b-430d-98d5-e196f7604a45/pid:[4026531836]/10528/299277',3023.742551745,0);
INSERT INTO "toolstile_effects" VALUES('call/s/call_0_3:charge:ed3bd3c6cd24d2a82182886ed4525d1f1ac75896d5c12922fcaab773844be5fd','charge','ed3bd3c6cd24d2a82182886ed4525d1f1ac75896d5c12922fcaab773844be5fd','8ef66fb2c4a5224bf80aad0000000002','s','call_0_3',1795868343815187,'done',NULL,X'',X'226368617267656420302D3222',0,X'5B7B22646F223A2022617070656E64222C202274797065223A202272756E5F6472697665723A436861726765222C20226974656D73223A205B7B226B6579223A2022302D32227D5D7D5D',NULL,NULL,'066d8f7a-ef7b-430d-98d5-e196f7604a45/pid:[4026531836]/10528/299277',3023.743640397,0);
CREATE TABLE toolstile_sessions (
    session_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    decision_id TEXT NOT NULL UNIQUE,
    epoch INTEGER NOT NULL,
    changes TEXT NOT NULL,
    has_files INTEGER NOT NULL,
    decided_at REAL NOT NULL,
    PRIMARY KEY (session_id, number)
) WITHOUT ROWID;
INSERT INTO "toolstile_sessions" VALUES('s',1,'18ec34be66b9b32922cd8604f5a5d4cb',0,'{"slices": {"toolstile_hookspecs:RequestTurn": {"at": 0, "items": [{"text": "Charge all.", "at": "2026-11-28T12:19:03.785798Z", "user_id": null, "source": null}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834378743600846e+09);
INSERT INTO "toolstile_sessions" VALUES('s',2,'18ec34be66d7f475360f4df59c5113e1',0,'{"slices": {"agent.Message": {"at": 0, "items": [{"role": "user", "text": "Charge all.", "calls": [], "answers": [], "dialect": "", "items": [], "request_id": "request-1"}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834379015707974e+09);
INSERT INTO "toolstile_sessions" VALUES('s',3,'18ec34be680661788b3c5747f2b64495',0,'{"slices": {"agent.Message": {"at": 1, "items": [{"role": "assistant", "text": "", "calls": [{"id": "call_0_1", "name": "charge", "arguments": "{\"key\": \"0-0\"}"}, {"id": "call_0_2", "name": "charge", "arguments": "{\"key\": \"0-1\"}"}, {"id": "call_0_3", "name": "charge", "arguments": "{\"key\": \"0-2\"}"}, {"id": "call_0_4", "name": "count", "arguments": "{}"}], "answers": [], "dialect": "", "items": [], "request_id": null}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834380791807172e+09);
INSERT INTO "toolstile_sessions" VALUES('s',4,'18ec34be680bd20067bf485c5d167ad7',0,'{"slices": {}, "records": [], "removed": [], "logs": {"agent.ModelReplied": [{"run_id": "8880cb1e26dc44fbbb999404fabf9c66", "request_id": "request-1", "attempt": 1, "worker_id": null, "turn": 1, "stop_reason": "tool_use", "usage": {"input_tokens": 100, "output_tokens": 10, "cached_tokens": 0}, "duration": 0.017598659999748634, "model": "script"}]}}',0,1.79586834380989909167e+09);
INSERT INTO "toolstile_sessions" VALUES('s',5,'18ec34be68cc2bdef5cb0659de5483a3',0,'{"slices": {"run_driver.Charge": {"at": 0, "items": [{"key": "0-0"}]}, "toolstile.state.replay:AppliedEffect": {"at": 0, "items": [{"effect_id": "8ef66fb2c4a5224bf80aad0000000000"}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834382235288618e+09);
INSERT INTO "toolstile_sessions" VALUES('s',6,'18ec34be68edfefa1fac38d414e6d6e5',0,'{"slices": {"run_driver.Charge": {"at": 1, "items": [{"key": "0-1"}]}, "toolstile.state.replay:AppliedEffect": {"at": 1, "items": [{"effect_id": "8ef66fb2c4a5224bf80aad0000000001"}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834382311892515e+09);
INSERT INTO "toolstile_sessions" VALUES('s',7,'18ec34be68f75bed247f1fda1b9fb9fe',0,'{"slices": {"run_driver.Charge": {"at": 2, "items": [{"key": "0-2"}]}, "toolstile.state.replay:AppliedEffect": {"at": 2, "items": [{"effect_id": "8ef66fb2c4a5224bf80aad0000000002"}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834382373189923e+09);
INSERT INTO "toolstile_sessions" VALUES('s',8,'18ec34be690878796593288304cf2032',0,'{"slices": {"agent.Message": {"at": 2, "items": [{"role": "tool", "text": "", "calls": [], "answers": [{"call_id": "call_0_1", "name": "charge", "text": "charged 0-0", "is_error": false}, {"call_id": "call_0_2", "name": "charge", "text": "charged 0-1", "is_error": false}, {"call_id": "call_0_3", "name": "charge", "text": "charged 0-2", "is_error": false}, {"call_id": "call_0_4", "name": "count", "text": "3", "is_error": false}], "dialect": "", "items": [], "request_id": null}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834382479190825e+09);
INSERT INTO "toolstile_sessions" VALUES('s',9,'18ec34be69139500defe32d04637d0a9',0,'{"slices": {"agent.Message": {"at": 3, "items": [{"role": "assistant", "text": "", "calls": [{"id": "call_1_1", "name": "refund", "arguments": "{\"key\": \"r\"}"}, {"id": "call_1_2", "name": "count", "arguments": "{}"}], "answers": [], "dialect": "", "items": [], "request_id": null}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834382547092438e+09);
INSERT INTO "toolstile_sessions" VALUES('s',10,'18ec34be691756582f024fce10f39b3c',0,'{"slices": {}, "records": [], "removed": [], "logs": {"agent.ModelReplied": [{"run_id": "8880cb1e26dc44fbbb999404fabf9c66", "request_id": "request-1", "attempt": 1, "worker_id": null, "turn": 2, "stop_reason": "tool_use", "usage": {"input_tokens": 100, "output_tokens": 10, "cached_tokens": 0}, "duration": 0.00042303700001866673, "model": "script"}]}}',0,1.79586834382566809652e+09);
INSERT INTO "toolstile_sessions" VALUES('s',11,'18ec34be694c797fd6f43866494197f5',0,'{"slices": {"agent.Message": {"at": 4, "items": [{"role": "tool", "text": "", "calls": [], "answers": [{"call_id": "call_1_2", "name": "count", "text": "3", "is_error": false}], "dialect": "", "items": [], "request_id": null}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834382919406888e+09);
CREATE TABLE toolstile_sessions_about (
    identity TEXT NOT NULL, version TEXT NOT NULL
);
INSERT INTO "toolstile_sessions_about" VALUES('76480f6c8b3e43bdb02020f8e7fe783c','1');
CREATE INDEX toolstile_effects_open ON toolstile_effects (created_at, key) WHERE state <> 'done';
COMMIT;
